"""`tl.target_info`: what code is compiled for; on the host, of the active device."""
from . import _Function, _names_of

_MODULE = "triton.language.target_info"


def _current_target():
    from ..runtime import driver
    try:
        return driver.active.get_current_target()
    except RuntimeError:
        return None


def _is_cuda():
    target = _current_target()
    return target is not None and target.backend == "cuda"


def _cuda_capability_geq(major, minor=0):
    return _is_cuda() and _current_target().arch >= major * 10 + minor


_host = {"current_target": _current_target, "is_cuda": _is_cuda, "cuda_capability_geq": _cuda_capability_geq}


class _Question(_Function):
    """What a kernel asks of the target that it is compiled for; the host may ask, too."""

    def __call__(self, *args, _semantic=None, **kwargs):
        from ._tensor import session
        if session() is not None:
            return super().__call__(*args, **kwargs)
        return _host.get(self.__name__, lambda: False)(*args, **kwargs)  # there is no AMD target


globals().update({name: _Question(_MODULE, name) for name in _names_of(_MODULE)})
__all__ = _names_of(_MODULE)
