"""What Inductor asks of a device where it measures Triton's kernels, and PyTorch does not say for CPUs."""
import contextlib


class _Cpu(contextlib.nullcontext):
    """In place of torch.cuda.device: there is one CPU, which is always the current one."""


def complete_cpu(module):
    """Gives torch._dynamo.device_interface's class for CPUs what it inherits as NotImplementedError."""
    if module.CpuInterface.device is module.DeviceInterface.device:
        module.CpuInterface.device = _Cpu


def complete_cpu_text(module):
    """The same for text: what torch._inductor.codegen.cpu_device_op_overrides puts into programs that measure kernels. Up to torch 2.14 or earlier these had
    several lines where one fits, and `with pass:`."""
    cpu = module.CpuDeviceOpOverrides
    cpu.import_get_raw_stream_as = lambda self, name: f"{name} = lambda device: 0"
    cpu.device_guard = lambda self, device_idx: "torch._ops.contextlib.nullcontext()"
