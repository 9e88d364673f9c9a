"""Which tensors a user's kernel writes to. PyTorch reads Triton's IR for it, and takes all of them where there is none; the compiler says so of each parameter
(kernelAccess in src/passes/ArgumentAccess.h), for a kernel compiled for what is known of its arguments when a program is traced."""
import functools
import logging

log = logging.getLogger(__name__)


class _NotKnown(Exception):
    """There is a reason to leave it to PyTorch, which then takes every tensor as written."""


def _code(value, torch):
    """The type code of an argument; symbols are any integer or float."""
    import sympy

    from tegula._specialize import type_canonicalisation_dict
    if hasattr(value, "get_dtype") or isinstance(value, torch.Tensor):  # Inductor's tensors have the former
        dtype = value.dtype if isinstance(value, torch.Tensor) else value.get_dtype()
        return "*" + type_canonicalisation_dict[str(dtype).rpartition(".")[2]]
    if isinstance(value, (bool, torch.SymBool)):
        return "i1"
    if isinstance(value, (float, torch.SymFloat)) or isinstance(value, sympy.Expr) and not value.is_integer:
        return "fp32"
    if isinstance(value, int):
        return "i32" if -2**31 <= value < 2**31 else "i64" if value < 2**63 else "u64"
    if isinstance(value, (torch.SymInt, sympy.Expr)):
        return "i64"  # of any size: what is only done for small ones counts, too
    raise _NotKnown(f"an argument is {type(value).__name__}")


def _accessed(fn, arguments, torch):
    """(names of the parameters that one compilation reads, that it writes)"""
    import tegula
    from tegula.compiler import ASTSource
    from tegula.runtime.driver import driver
    signature, constants = {}, {}
    for parameter in fn.params:
        if parameter.name not in arguments:
            if not parameter.has_default:
                raise _NotKnown(f"`{parameter.name}` has no value")
            continue
        value = arguments[parameter.name]
        if parameter.is_constexpr or value is None:
            if not isinstance(value, (int, float, str, bool, type(None), tegula.language.dtype, tegula.language.constexpr)):
                raise _NotKnown(f"constant `{parameter.name}` is {type(value).__name__}")
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        else:
            signature[parameter.name] = _code(value, torch)
    kernel = tegula.compile(ASTSource(fn, signature, constants), target=driver.active.get_current_target())
    return {name for name, read, _ in kernel.accesses if read}, {name for name, _, written in kernel.accesses if written}


def accessed_tensors(kernel, arguments, descriptors):
    """(names of the tensors among `arguments` that the kernel, in any of its configurations, reads, that it writes)"""
    import torch

    from tegula.jit import JITFunction
    from tegula.runtime.autotuner import Autotuner
    if descriptors:
        raise _NotKnown("it takes descriptors")
    settings = [{}]
    if isinstance(kernel, Autotuner):
        settings, kernel = [config.kwargs for config in kernel.configs] or [{}], kernel.fn
    if not isinstance(kernel, JITFunction):
        raise _NotKnown(f"it is {type(kernel).__name__}")
    tensors = [name for name, value in arguments.items() if name in kernel.arg_names and _is_tensor(value, torch)]
    reads, writes, done = set(), set(), set()
    for constants in settings:
        key = tuple(sorted(constants.items(), key=str))
        if key not in done and not (reads & writes).issuperset(tensors):
            done.add(key)
            found = _accessed(kernel, {k: v for k, v in {**arguments, **constants}.items() if k in kernel.arg_names}, torch)
            reads, writes = reads | found[0], writes | found[1]
    return [name for name in tensors if name in reads], [name for name in tensors if name in writes]


def _is_tensor(value, torch):
    return isinstance(value, torch.Tensor) or hasattr(value, "get_dtype")


def know_what_is_written(module):
    """torch._higher_order_ops.triton_kernel_wrap: asks the compiler first."""
    def asking(ask, answer):
        @functools.wraps(ask)
        def wrapped(kernel, kwargs, tma_descriptor_metadata, *rest, **more):
            try:
                return answer(*accessed_tensors(kernel, kwargs, tma_descriptor_metadata))
            except Exception as e:  # what does not compile like this may compile with the arguments of its launches
                log.info("what %s writes to is not known (%s): PyTorch takes every tensor", getattr(kernel, "__name__", kernel), e)
            return ask(kernel, kwargs, tma_descriptor_metadata, *rest, **more)
        return wrapped

    def accesses(reads, writes):
        from torch._inductor.dependencies import ReadWrites, StarDep
        from torch.utils._ordered_set import OrderedSet
        made = ReadWrites(reads=OrderedSet(map(StarDep, reads)), writes=OrderedSet(map(StarDep, writes)), index_exprs=OrderedSet())
        return module.TensorAccesses(made, can_fuse_epilogue=False)

    for name, answer in (("identify_mutated_tensors", lambda reads, writes: writes), ("identify_accessed_tensors", accesses)):  # 2.11 has the former, 2.14 the latter
        if hasattr(module, name):
            setattr(module, name, asking(getattr(module, name), answer))
