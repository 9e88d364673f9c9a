"""What Inductor asks of a device where it measures Triton's kernels, and PyTorch does not say for CPUs."""
import contextlib


class _Cpu(contextlib.nullcontext):
    """In place of torch.cuda.device: there is one CPU, which is always the current one."""


def complete_cpu(module):
    """Gives torch._dynamo.device_interface's class for CPUs what it inherits as NotImplementedError."""
    if module.CpuInterface.device is module.DeviceInterface.device:
        module.CpuInterface.device = _Cpu
