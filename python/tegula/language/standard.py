"""`tl.standard`: the same functions as `tl`, under the module name some code imports them from."""
from .. import language as _tl


def __getattr__(name):
    if name == "__all__":
        return __dir__()
    return getattr(_tl, name)


def __dir__():
    return sorted({n for n in (*globals(), *_tl._names_of("triton.language.standard")) if not n.startswith("_")})
