"""What `triton.runtime.driver.active` may be: base classes, and a driver for each kind of device."""
import abc
import functools
import platform
import re
import sys

from .. import _core
from .compiler import REGISTERS, SHARED, GPUTarget, target_of


class Benchmarker:
    """f(call, *, quantiles, **options) -> milliseconds"""

    def __call__(self, kernel_call, *, quantiles, **kwargs):
        raise NotImplementedError


class DriverBase(abc.ABC):

    @classmethod
    @abc.abstractmethod
    def is_active(cls):
        """Can kernels run on its device?"""

    @abc.abstractmethod
    def get_current_target(self):
        """The GPUTarget that launches are compiled for unless they say otherwise."""

    @abc.abstractmethod
    def get_active_torch_device(self):
        """PyTorch's name of the device."""

    @abc.abstractmethod
    def get_benchmarker(self):
        """A Benchmarker."""

    def map_python_to_cpp_type(self, ty):
        return ty_to_cpp(ty)

    def __init__(self):
        pass


class GPUDriver(DriverBase):
    """A driver that leaves devices and streams to PyTorch."""

    def assemble_tensormap_to_arg(self, tensormaps_info, args):
        return args


_CPP = {"i1": "int8_t", "u1": "uint8_t", "fp16": "double", "bf16": "double", "fp32": "double", "f32": "double", "fp64": "double",
        **{f"i{w}": f"int{w}_t" for w in (8, 16, 32, 64)}, **{f"u{w}": f"uint{w}_t" for w in (8, 16, 32, 64)}}


def ty_to_cpp(ty):
    """The type of C++ in which a launcher takes an argument of this type code."""
    return "CUdeviceptr" if ty.startswith("*") else _CPP[ty]


_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^[>]*)\[([^\]]*)\](?:.*,input_rank=(\d+))?")


def expand_signature(signature, tensordesc_meta, descriptor_type):
    """The type codes of what a launcher of Triton passes: a descriptor is `descriptor_type`, or without metadata a pointer, its shape and strides and two flags;
    shape and strides follow it. Tuples stay tuples."""
    codes = []
    for code in signature:
        found = _DESCRIPTOR.match(code) if isinstance(code, str) else None
        if isinstance(code, tuple):
            codes.append(tuple(expand_signature(code, tensordesc_meta, descriptor_type)))
        elif found:
            rank = int(found[3] or found[2].count(",") + 1)
            codes += [descriptor_type] if tensordesc_meta else ["*" + found[1], *["i64"] * (2 * rank), "i1", "i1"]
            codes += ["i32"] * rank + ["i64"] * rank
        else:
            codes.append(code)
    return codes


class _Utils:
    """What programs ask about devices of one kind; `driver` says which."""

    def __init__(self, driver):
        self._driver = driver

    def get_device_properties(self, device=0):
        return self._driver.properties(device)

    def get_current_device(self):
        return self._driver.get_current_device()

    def get_device_capability(self, device=0):
        arch = self._driver.get_current_target().arch
        return (arch // 10, arch % 10) if isinstance(arch, int) else (0, 0)

    def get_default_stream(self, device=0):
        return 0

    def set_printf_fifo_size(self, size):
        """Kernels print by way of the library, whose buffers grow."""

    def load_binary(self, *args):
        raise NotImplementedError("load_binary: tegula loads kernels by itself; launch them, or use kernel.warmup()")

    def unload_module(self, module):
        """Kernels stay loaded as long as the process lives."""


class _HostInterface:
    """In place of torch.cuda or torch.cpu where PyTorch is not imported: what is asked of a device interface."""

    def __init__(self, driver):
        self._driver = driver

    def current_device(self):
        return self._driver.get_current_device()

    def set_device(self, device):
        """Launches run where their tensors are."""

    def current_stream(self, device=None):
        return self._driver.get_current_stream(device)

    def synchronize(self, device=None):
        self._driver.synchronize()

    def is_available(self):
        return self._driver.is_active()

    def device_count(self):
        return max(1, len([n for n, _ in _core.devices() if n.startswith("cuda:")]))


class _Empty:
    """Memory that benchmarks overwrite between two runs, so that the caches hold nothing of the run before."""

    def __init__(self, size):
        import ctypes
        self.size, self._bytes, self._memset = size, ctypes.create_string_buffer(size), ctypes.memset

    def zero_(self):
        self._memset(self._bytes, 0, self.size)


class LibraryDriver(GPUDriver):
    """The device of launches whose tensors do not say: base of the drivers for each kind."""

    def __init__(self):
        super().__init__()
        self.utils = _Utils(self)

    @staticmethod
    def _torch():
        return sys.modules.get("torch")

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        self.get_device_interface().set_device(device)

    def get_current_stream(self, device=None):
        return 0

    def get_device_capability(self, device=0):
        return self.utils.get_device_capability(device)

    def get_device_interface(self):
        """torch.cuda, torch.cpu, or what stands for them in programs without PyTorch."""
        torch = self._torch()
        return _HostInterface(self) if torch is None else torch.cpu

    def get_active_torch_device(self):
        import torch
        return torch.device("cpu")

    def get_benchmarker(self):
        from .._timing import do_bench
        return do_bench

    def get_empty_cache_for_benchmark(self):
        torch = self._torch()
        size = 64 << 20
        return _Empty(size) if torch is None else torch.empty(size // 4, dtype=torch.int32)

    def clear_cache(self, cache):
        cache.zero_()

    def synchronize(self):
        """Waits for all that was launched."""

    def launcher_cls(self, src, metadata):
        raise NotImplementedError("launcher_cls: tegula launches kernels by itself; use kernel[grid](...) or CompiledKernel.run")


class CPUDriver(LibraryDriver):

    @classmethod
    def is_active(cls):
        return True

    def get_current_target(self):
        # Programs divide by the warp's size to get num_warps, which is counted in 32 threads on every device.
        return GPUTarget("cpu", platform.machine(), 32)

    def properties(self, device=0):
        p = _core.device_properties("cpu")
        return {"max_shared_mem": SHARED, "max_num_regs": REGISTERS, "multiprocessor_count": p["cores"], "warpSize": 32, "sm_clock_rate": _cpu_khz(),
                "mem_clock_rate": 0, "mem_bus_width": 0, **p}


class SimDriver(LibraryDriver):
    """The simulator: a GPU's code on the CPU's memory."""

    @classmethod
    def is_active(cls):
        return True

    def get_current_target(self):
        return target_of(_core.device_properties("sim")["target"])

    def properties(self, device=0):
        p = _core.device_properties("sim")
        return {"max_shared_mem": p["max_shared_bytes"], "max_num_regs": REGISTERS, "multiprocessor_count": p["cores"], "warpSize": 32,
                "sm_clock_rate": _cpu_khz(), "mem_clock_rate": 0, "mem_bus_width": 0, **p}


class CudaDriver(LibraryDriver):
    """PyTorch's current GPU, or the first one."""

    @classmethod
    def _targets(cls):
        return [target for name, target in _core.devices() if name.startswith("cuda:")]

    @classmethod
    def is_active(cls):
        torch = cls._torch()
        if torch is not None:
            return bool(torch.cuda.is_available() and torch.version.hip is None and cls._targets())
        return bool(cls._targets())

    @classmethod
    def _cuda(cls):
        torch = cls._torch()
        return torch.cuda if torch is not None and torch.cuda.is_available() else None

    def get_current_device(self):
        cuda = self._cuda()
        return cuda.current_device() if cuda else 0

    def get_current_target(self):
        targets = self._targets()
        return target_of(targets[min(self.get_current_device(), len(targets) - 1)])

    def get_current_stream(self, device=None):
        """Address of PyTorch's current stream; 0, the default stream, without it."""
        cuda = self._cuda()
        return cuda.current_stream(device).cuda_stream if cuda else 0

    def get_device_interface(self):
        return self._cuda() or _HostInterface(self)

    def get_active_torch_device(self):
        import torch
        return torch.device("cuda", self.get_current_device())

    def get_empty_cache_for_benchmark(self):
        torch = self._torch()
        return _Empty(64 << 20) if torch is None else torch.empty(64 << 20, dtype=torch.int32, device="cuda")

    def synchronize(self):
        for name, _ in _core.devices():
            if name.startswith("cuda:"):
                _core.synchronize(name)

    def properties(self, device=0):
        from ..runtime._gpu import attributes
        return attributes(device)


@functools.cache
def _cpu_khz():
    """The processor's highest clock rate as the system tells it; 0 if it does not."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", encoding="ascii") as f:
            return int(f.read())
    except (OSError, ValueError):
        pass
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            rates = [float(line.split(":")[1]) for line in f if line.startswith("cpu MHz")]
    except (OSError, ValueError):
        rates = []
    return int(max(rates, default=0) * 1000)
