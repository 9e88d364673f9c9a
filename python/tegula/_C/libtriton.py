"""`triton._C.libtriton`: reading the environment. Triton's compiler, which is behind the other names there, is not here."""
import os

_ELSEWHERE = {
    "ir": "MLIR; `kernel.asm` has tegula's stages, `tile` the first one",
    "passes": "passes of MLIR; `tegula-opt` runs tegula's",
    "llvm": "LLVM is in the library; `kernel.asm` has its text",
    "amd": "there is no AMD target",
    "proton": "`triton.profiler` is the profiler",
    "linear_layout": "`triton.tools.LinearLayout` is the class of layouts",
}


def getenv(name, default=""):
    """The variable, or the default where it is not set."""
    return os.environ.get(name, default)


def getenv_bool(name, default=False):
    """Is the variable set to 1, true, on or yes?"""
    value = os.environ.get(name)
    return default if value is None else value.lower() in ("1", "true", "on", "yes", "y")


def get_cache_invalidating_env_vars():
    """The variables that are set and a part of the key of kernels."""
    return {name: os.environ[name] for name in ("TEGULA_STRICT", "TEGULA_TRITON_LEVEL") if name in os.environ}


def __getattr__(name):
    if name == "nvidia":
        from . import nvidia
        return nvidia
    if name == "native_specialize_impl":
        from ..runtime.jit import native_specialize_impl
        return native_specialize_impl
    if name in _ELSEWHERE:
        raise AttributeError(f"triton._C.libtriton.{name} is not there: {_ELSEWHERE[name]}")
    raise AttributeError(f"triton._C.libtriton has no `{name}` here; Triton's compiler is not a part of tegula")
