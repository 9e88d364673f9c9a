"""Options of launches and compilations that come from knobs, and what decides whether launches are looked at: launches are C++ (python/src/Function.cpp) and ask no
knob. Every assignment to one decides anew whether they come by `_hooks.intercept`."""
from . import _core, knobs


def option_demands():
    """Options of all launches and compilations, whatever they say. Launches know by `set_debug_demanded`, as a keyword may be a parameter of the kernel."""
    return {"debug": True} if knobs.runtime.debug else {}


def option_defaults():
    """Options of launches and compilations that do not say, from the knobs."""
    out = {}
    if knobs.language.force_disable_fp_fusion or not knobs.language.default_fp_fusion:
        out["enable_fp_fusion"] = False
    if "level" in vars(knobs.language):  # assigned; the library reads the variable by itself, once
        out["language_level"] = int(str(knobs.language.level).replace(".", ""))
    if "strict" in vars(knobs.language):
        out["strict"] = bool(knobs.language.strict)
    return out


_watchers = 0  # that want to see launches, beside the hooks


def watch_launches(change):
    """One more (+1) or one less (-1) that needs `intercept`."""
    global _watchers
    _watchers += change
    decide()


def watched():
    """Does somebody want to see launches, beside the hooks?"""
    return _watchers > 0


_interpret_all = False


class interpret:
    """From here on launches run in the interpreter (docs/host.md): Python itself runs the function of a kernel, program by program. A switch, and a context
    manager that sets it back: `with tegula.interpret(): kernel[grid](...)`. `interpret(False)` switches it off."""

    def __init__(self, on=True):
        self._before = _interpret_all
        self._set(bool(on))

    @staticmethod
    def _set(on):
        global _interpret_all
        _interpret_all = on
        decide()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._set(self._before)


def interpreting(fn):
    """Do launches of this function run in the interpreter?"""
    return _interpret_all or fn.interpreted


def decide():
    """Must launches come by `intercept`?"""
    r = knobs.runtime
    _core.set_debug_demanded(bool(r.debug))
    _core.set_intercept_all(bool(_watchers or _interpret_all or vars(knobs.language).keys() & {"level", "strict"} or r.jit_cache_hook or r.launch_enter_hook.calls or r.launch_exit_hook.calls
                                 or knobs.language.force_disable_fp_fusion or not knobs.language.default_fp_fusion))
