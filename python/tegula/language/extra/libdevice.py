"""`tl.extra.libdevice`: the libdevice functions this version can compute on every target."""
from .. import _lookup


def __getattr__(name):
    return _lookup("triton.language.extra.libdevice", name)
