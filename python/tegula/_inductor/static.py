"""Inductor's static launcher on GPUs: PyTorch starts a cubin by itself, from a file in Triton's cache folder, without a frame of Python for each launch. Kernels that it can
start get such a file. The others are launched by the library as before: those that need more than arguments and a grid, and those that may fail by a message, as PyTorch
gives a null pointer where a failing program writes what went wrong."""
import functools
import logging
import os

from .._kernel import CompiledKernel

_log = logging.getLogger(__name__)
# What PyTorch's launcher passes as kernels take it. It passes float16 and bfloat16 as float, in four bytes.
_SCALARS = {"i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64"}


def lend_cubins(module):
    """torch._inductor.runtime.triton_heuristics: before PyTorch looks for a kernel's file, it is there, or the kernel is known to need the library."""
    result = getattr(module, "StaticTritonCompileResult", None)
    if result is None:
        return
    can = result.can_statically_launch

    @functools.wraps(can)
    def can_statically_launch(kernel, inductor_meta, triton_meta, heuristic_type):
        if isinstance(kernel, CompiledKernel):
            if why := why_not(kernel):
                _log.info("%s is launched by the library: %s", kernel.name, why)
                return None
            device = triton_meta.get("device", 0)
            write(kernel, os.path.join(module.triton_cache_dir(device), module.triton_hash_to_path_key(kernel.hash), f"{kernel.src.fn.__name__}.cubin"))
        return can(kernel, inductor_meta, triton_meta, heuristic_type)

    result.can_statically_launch = staticmethod(can_statically_launch)


def why_not(kernel):
    """Why PyTorch's launcher cannot start this kernel as the library would; None if it can."""
    from .aoti import beyond_arguments
    if "ptx" not in kernel.asm:
        return "it runs on the CPU"
    if kernel.src is None or kernel.src.fn is None:
        return "it is not known what arguments it was compiled for"
    if why := beyond_arguments(kernel):
        return why
    if kernel.n_max_threads != 32 * kernel.metadata.num_warps:
        return f"it has {kernel.n_max_threads} threads for {kernel.metadata.num_warps} warps"
    if other := sorted({str(c) for c in kernel.src.signature.values() if c != "constexpr" and not str(c).startswith("*") and c not in _SCALARS}):
        return f"it takes {', '.join(other)}"
    parameters, body = _entry(kernel.asm["ptx"])
    if parameters[-1] in body:
        return "a program of it that fails writes what went wrong"
    return None


def _entry(ptx):
    """The names of a kernel's parameters, and the text of its body."""
    head, _, body = ptx.partition(".entry")[2].partition(")")
    return [line.split()[-1].rstrip(",") for line in head.splitlines() if ".param" in line], body


def write(kernel, path):
    """The kernel's cubin as a file, complete whenever it is there."""
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "wb") as file:
        file.write(kernel.asm["cubin"])
    os.replace(unfinished, path)
