"""`tl.standard`: the same functions as `tl`, under the module name some code imports them from."""
from .. import language as _tl


def __getattr__(name):
    return getattr(_tl, name)
