"""The backend "tegula" of torch.compile, and what makes `triton` mean tegula in a process that was not started by `python -m tegula`."""
import importlib
import sys

from . import later, versions


def _is_alias(triton):
    from tegula._triton_name import _Triton
    return isinstance(triton, _Triton)


def prepare():
    """`triton` means tegula from here on, in what PyTorch remembers too; raises if another `triton` has been imported."""
    wanted = versions.wanted()
    triton = sys.modules.get("triton")
    if triton is None:
        from tegula import _triton_name
        _triton_name.install()
        _triton_name.install_for_children()
        later.lead_workers()
        _forget_absence()
    elif not _is_alias(triton):
        raise RuntimeError(f"tegula.torch: another triton ({triton.__file__}) has been imported already; import tegula.torch first, or run the program by `python -m tegula`")
    later.adapt(wanted)


# Modules of Inductor that look for a `triton` when they are imported, and one that derives classes from what they found.
_COMPAT, _HINTS, _DERIVED = (f"torch._inductor.runtime.{name}" for name in ("triton_compat", "hints", "triton_heuristics"))


def _forget_absence():
    """PyTorch asks once whether there is a `triton`; parts of it that have been imported without one learn of it here."""
    for found in vars(sys.modules.get("torch.utils._triton", sys)).values():
        if getattr(found, "__module__", None) == "torch.utils._triton" and hasattr(found, "cache_clear"):
            found.cache_clear()
    if (dynamo := sys.modules.get("torch._dynamo.utils")) is not None:
        import triton
        dynamo.common_constant_types.add(triton.language.dtype)
    if _COMPAT in sys.modules and sys.modules[_COMPAT].ASTSource is None:
        _replace_stand_ins()


def _replace_stand_ins():
    """Imports again what had stand-ins for `triton`, and replaces them where others imported them by name."""
    if _DERIVED in sys.modules:
        raise RuntimeError("tegula.torch: Inductor has been imported without a triton; import tegula.torch first, or run the program by `python -m tegula`")
    for module in (sys.modules[name] for name in (_COMPAT, _HINTS) if name in sys.modules):
        before = dict(vars(module))
        after = vars(importlib.reload(module))
        changed = {key for key in before if not key.startswith("__") and after.get(key) is not before[key]}
        for user in [m for name, m in sys.modules.items() if name.startswith("torch._inductor.") and m is not module]:
            for key in changed & vars(user).keys():
                if vars(user)[key] is before[key]:
                    setattr(user, key, after[key])


def compile_graph(graph, example_inputs, *, mode=None, options=None):
    """The backend "tegula" of torch.compile: Inductor with tegula's settings for this graph, and what `mode` and `options` add to them."""
    prepare()
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx
    patches = {**versions.wanted().settings, **(list_mode_options(mode) if mode else {}), **(options or {})}
    return compile_fx(graph, example_inputs, config_patches=patches)
