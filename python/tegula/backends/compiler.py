"""The classes that programs written for Triton name when they speak of targets, and a compiler class for each kind of device.

All of them make code by the one library underneath; a class from outside (entry points `triton.backends`) may add targets of its own, whose kernels
it then has to compile itself.
"""
import abc
import dataclasses
import enum
import platform

from .._version import triton_key


@dataclasses.dataclass(frozen=True)
class GPUTarget:
    """What code is made for: backend "cuda", "cpu" or "sim", arch 90 (compute capability) or the processor's name, threads of
    a warp (cpu: 0)."""
    backend: str
    arch: object
    warp_size: int


class Language(enum.Enum):
    TRITON = 0
    GLUON = 1


class BaseBackend(abc.ABC):
    """What a kind of device needs of its code."""

    def __init__(self, target):
        if not self.supports_target(target):
            raise AssertionError(f"{type(self).__name__} does not make code for {target}")
        self.target = target

    @staticmethod
    @abc.abstractmethod
    def supports_target(target):
        raise NotImplementedError

    @abc.abstractmethod
    def hash(self):
        """Another text for another compiler."""

    @abc.abstractmethod
    def parse_options(self, options):
        """The options that it knows, as an object with fields; others are left out."""

    @abc.abstractmethod
    def add_stages(self, stages, options, language):
        """Puts {name of a stage: f(source, metadata)} into `stages`."""

    @abc.abstractmethod
    def load_dialects(self, context):
        ...

    @abc.abstractmethod
    def get_module_map(self):
        """{name of a module as kernels import it: the module}"""

    def get_codegen_implementation(self, options):
        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1), "convert_custom_types": None}

    @staticmethod
    def parse_attr(desc):
        return [["tt.divisibility", 16]] if desc == "D" else []

    @staticmethod
    def get_int_specialization(arg, **kwargs):
        return "D" if arg % 16 == 0 and kwargs.get("align", False) else ""

    @staticmethod
    def get_tensor_specialization(arg, **kwargs):
        return "D" if arg.data_ptr() % 16 == 0 and kwargs.get("align", False) else ""


# Options of launches and what they are unless a launch says: docs/language.md §4.3. Those with a meaning are launch options of the library.
_DEFAULTS = dict(num_warps=4, num_stages=3, num_ctas=1, warp_size=32, maxnreg=None, enable_fp_fusion=True, enable_reflect_ftz=True,
                 launch_cooperative_grid=False, launch_pdl=False, debug=False, sanitize_overflow=True, extern_libs=None, ir_override=None, ptx_version=None,
                 ptx_options=None, supported_fp8_dtypes=("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16"), deprecated_fp8_dot_operand_dtypes=(),
                 default_dot_input_precision="tf32", allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
                 max_num_imprecise_acc_default=0, instrumentation_mode="", arch=None, backend_name="")
Options = dataclasses.make_dataclass("Options", [(k, object, dataclasses.field(default=v)) for k, v in _DEFAULTS.items()], frozen=True)
Options.__doc__ = "Options of a launch."


class LibraryBackend(BaseBackend):
    """A device whose code the library makes: `stages` names what a kernel's `.asm` has, the last of them the code."""
    name: str
    stages: tuple
    binary_ext = "obj"

    @classmethod
    def supports_target(cls, target):
        return target.backend == cls.name

    def hash(self):
        return f"{triton_key()}-{self.target.backend}-{self.target.arch}"

    def parse_options(self, options):
        if (n := options.get("num_warps")) is not None and (n <= 0 or n & (n - 1)):
            raise AssertionError("num_warps must be a power of 2")
        known = {k: v for k, v in options.items() if k in _DEFAULTS and v is not None}
        return Options(**{"backend_name": self.name, "arch": self.target.arch, "warp_size": self.target.warp_size, **known})

    def add_stages(self, stages, options, language=Language.TRITON):
        for stage in self.stages:
            stages[stage] = lambda source, metadata, stage=stage: source.stage(self.target, options, stage)

    def load_dialects(self, context):
        """There are no dialects to load: the IR is the library's own."""

    def get_module_map(self):
        from ..language.extra import libdevice
        return {"triton.language.extra.libdevice": libdevice}

    def pack_metadata(self, metadata):
        return metadata.num_warps, metadata.num_ctas, metadata.shared


class CUDABackend(LibraryBackend):
    name, binary_ext = "cuda", "cubin"
    stages = ("tile", "gpu", "llvm", "ptx", "cubin")


class CPUBackend(LibraryBackend):
    name, stages = "cpu", ("tile", "cpu", "llvm", "asm", "obj")


class SimBackend(LibraryBackend):
    name, stages = "sim", ("tile", "gpu", "llvm", "obj")


# What scripts divide the limits of a device by to choose a grid, where it has none: never 0, and a block of any num_warps fits.
REGISTERS = 65536  # of a core, `max_num_regs`
SHARED = 232448  # `max_shared_mem` of CPUs, an H100's: scripts keep the configurations that they keep on the simulator


def _capability(text):
    return int("".join(c for c in text.partition("_")[2] if c.isdigit()))


def target_of(text):
    """The GPUTarget of a target's name: "cpu:avx2", "sm_90a", "sim:sm_90a"."""
    kind, _, rest = text.partition(":")
    if kind == "cpu":
        return GPUTarget("cpu", platform.machine(), 32)
    if kind == "sim":
        return GPUTarget("sim", _capability(rest or "sm_90"), 32)
    return GPUTarget("cuda", _capability(rest or kind), 32)


def name_of(target):
    """The library's name of a GPUTarget; None for this machine's processor."""
    if not hasattr(target, "backend"):
        raise TypeError(f"a target is a GPUTarget, such as GPUTarget('cuda', 90, 32); found {target!r}")
    if target.backend == "cpu":
        return None
    if target.backend not in ("cuda", "sim"):
        raise RuntimeError(f"0 compatible backends for target ({target.backend}): tegula makes code for cuda, cpu and sim")
    try:
        arch = int(target.arch)
    except (TypeError, ValueError):
        raise ValueError(f"CUDA backend expects a numeric arch, got {target.arch!r}") from None
    name = f"sm_{arch}{'a' if arch >= 90 else ''}"
    return name if target.backend == "cuda" else f"sim:{name}"
