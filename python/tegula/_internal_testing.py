"""What tests written for Triton import from triton._internal_testing: kinds of devices, dtypes, random arrays, processes, fresh settings."""
import collections
import contextlib
import multiprocessing
import os
import re
import sys
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor

from . import knobs
from ._compile_warmup_state import is_compile_warmup
from ._mock import TensorWrapper, reinterpret
from .language import _types

try:
    import torch
except ImportError:  # for tests that do without it
    torch = None

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = float_dtypes + ["bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = dtypes + ["bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool"] + int_dtypes + ["uint8"] + float_dtypes + ["bfloat16"]
tma_dtypes = sorted(set(dtypes_with_bfloat16) - {"int64", "uint64", "float64"})

# ------------------------------------------------------------------------------------------------------------- kinds of devices


def is_interpreter():
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def get_current_target():
    """The GPUTarget of the active driver; None in the interpreter."""
    if is_interpreter():
        return None
    from .runtime.driver import driver
    return driver.active.get_current_target()


def _backend():
    target = get_current_target()
    return None if target is None else target.backend


def is_cuda():
    return _backend() == "cuda"


def is_cpu():
    return not is_interpreter() and _backend() == "cpu"


def _capability():
    """(major, minor) of the GPU; (0, 0) on other devices."""
    target = get_current_target()
    return divmod(target.arch, 10) if target is not None and target.backend == "cuda" else (0, 0)


def is_ampere_or_newer():
    return _capability()[0] >= 8


def is_hopper():
    return _capability()[0] == 9


def is_hopper_or_newer():
    return _capability()[0] >= 9


def is_blackwell():
    return _capability()[0] in (10, 11)


def is_blackwell_ultra():
    return _capability() == (10, 3)


def is_rubin():
    return _capability() == (10, 7)


def is_sm12x():
    return _capability()[0] == 12


def _never():
    return False


def get_arch():
    """What the active driver compiles for, as text: "90" for a GPU of compute capability 9.0; empty in the interpreter."""
    target = get_current_target()
    return "" if target is None else str(target.arch)


# There is no code for AMD or Intel GPUs here.
is_hip = is_xpu = is_hip_cdna = is_hip_cdna2 = is_hip_cdna3 = is_hip_cdna4 = is_hip_cdna3_or_newer = _never
is_hip_rdna = is_hip_rdna3 = is_hip_rdna4 = is_hip_rdna4m = is_hip_gfx1250 = _never


def get_hip_lds_size():
    return 65536


def supports_tma(byval_only=False):
    """Tensor descriptors work on every device here but GPUs older than Hopper."""
    return not is_cuda() or is_hopper_or_newer()


def supports_ws():
    return is_cuda() and is_hopper_or_newer()


def supports_clc():
    return False


def tma_skip_msg(byval_only=False):
    return "Requires __grid_constant__ TMA support (NVIDIA Hopper or higher)" if byval_only else "Requires advanced TMA support (NVIDIA Hopper or higher)"


def _requires_tma():
    import pytest
    return pytest.mark.skipif(not supports_tma(), reason=tma_skip_msg())


def skip_if_unsupported_cluster_size(n):
    import pytest
    if n > 1 and not is_hopper_or_newer():
        pytest.skip("clusters need NVIDIA Hopper or higher")


def __getattr__(name):
    if name == "requires_tma":  # a mark of pytest, which scripts may lack
        return _requires_tma()
    if re.fullmatch("is_(hip|amd|xpu)(_[a-z0-9_]+)?", name):  # newer ones of the kind above
        return _never
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ------------------------------------------------------------------------------------------------------------------ random arrays


def numpy_random(shape, dtype_str, rs=None, low=None, high=None):
    """An array of random values, the same for the same RandomState: no zeros among ints, small positive bit patterns for fp8, bfloat16 as float32."""
    import numpy as np
    shape = (shape,) if isinstance(shape, int) else shape
    rs = np.random.RandomState(seed=17) if rs is None else rs
    if dtype_str in integral_dtypes:
        limits = np.iinfo(dtype_str)
        low = limits.min if low is None else max(low, limits.min)
        high = limits.max if high is None else min(high, limits.max)
        x = rs.randint(low, high, shape, dtype=dtype_str)
        x[x == 0] = 1
        return x
    if dtype_str and "float8" in dtype_str:
        return rs.randint(20, 40, shape, dtype=np.int8)
    if dtype_str in float_dtypes:
        return rs.normal(0, 1, shape).astype(dtype_str)
    if dtype_str == "bfloat16":
        return (rs.normal(0, 1, shape).astype("float32").view("uint32") & np.uint32(0xffff0000)).view("float32")
    if dtype_str in ("bool", "int1", "bool_"):
        return rs.normal(0, 1, shape) > 0.0
    raise RuntimeError(f"Unknown dtype {dtype_str}")


def random_int(low, high, *, warmup_value=None, **kwargs):
    import random
    return random.randint(low, high)


def random_float(*, warmup_value=0.5, **kwargs):
    import random
    return random.random()


def to_triton(x, device, dst_type=None):
    """A torch tensor of a numpy array, as kernels take it: unsigned ints and fp8 as another type of the same size behind a TensorWrapper."""
    name = x.dtype.name
    if name in uint_dtypes:
        return reinterpret(torch.tensor(x.view(name.lstrip("u")), device=device), _types.dtype(name))
    if dst_type and "float8" in dst_type:
        return reinterpret(torch.tensor(x, device=device), _types.dtype(dst_type))
    tensor = torch.tensor(x, device=device)
    return tensor.bfloat16() if name == "float32" and dst_type == "bfloat16" else tensor


def to_numpy(x):
    import numpy as np
    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().astype(getattr(np, torch_dtype_name(x.dtype)))
    if torch is not None and isinstance(x, torch.Tensor):
        return x.cpu().float().numpy() if x.dtype is torch.bfloat16 else x.cpu().numpy()
    raise ValueError(f"Not a triton-compatible tensor: {x}")


def unwrap_tensor(t):
    return t.base if isinstance(t, TensorWrapper) else t


def str_to_triton_dtype(x):
    return _types.dtype(x)


def torch_dtype_name(dtype):
    if isinstance(dtype, _types.dtype):
        return dtype.name
    found = re.match(r"^torch\.(\w+)$", str(dtype))
    if not found:
        raise TypeError(f"not a triton or torch dtype: {type(dtype)}")
    return found.group(1)


def default_alloc_fn(size, align, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda" if is_cuda() else "cpu")


# --------------------------------------------------------------------------------------------------------- settings and processes


def _fresh_knobs_impl(skipped_attr=None):
    """(f, g): f() makes all groups of knobs but those named as if nothing was set, and gives the module; g() takes that back."""
    skipped = set(skipped_attr or ())
    before = {name: group for name, group in vars(knobs).items() if isinstance(group, knobs.base_knobs) and name not in skipped}
    variables = {d.key for group in before.values() for d in group.knob_descriptors.values()}
    environment, propagate = {}, knobs.propagate_env

    def fresh():
        knobs.propagate_env = True
        environment.update({key: os.environ.pop(key) for key in variables if key in os.environ})
        for name, group in before.items():
            setattr(knobs, name, group.copy().reset())
        return knobs

    def back():
        knobs.propagate_env = propagate
        for key in variables:
            os.environ.pop(key, None)
        os.environ.update(environment)
        for name, group in before.items():
            setattr(knobs, name, group)
    return fresh, back


ProcessResult = collections.namedtuple("ProcessResult", "exc driver_stderr_output")


@contextlib.contextmanager
def _stderr_to(file):
    """All that the process writes to stderr, also that of libraries."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def _call(client_fn, args, kwargs, env):
    os.environ.update(env or {})
    with tempfile.TemporaryFile(mode="w+") as file:
        with _stderr_to(file):
            try:
                client_fn(*args, **kwargs)
                error = None
            except BaseException as e:
                traceback.print_exc()
                error = e
        file.seek(0)
        return ProcessResult(error, file.read())


@contextlib.contextmanager
def use_process_pool(preload_module):
    """Triton keeps processes ready that have imported the module; here each client has one of its own anyway."""
    yield None


def run_in_process(client_fn, args=(), kwargs=None, env=None):
    """client_fn(*args, **kwargs) in a process of its own: what it raised, and what was written to stderr."""
    timeout = float(os.environ.get("TRITON_TEST_PROCESS_TIMEOUT", "600"))
    if os.environ.get("DISABLE_SUBPROCESS"):
        client_fn(*args, **(kwargs or {}))
        return ProcessResult(None, "")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_call, client_fn, args, kwargs or {}, env).result(timeout)
