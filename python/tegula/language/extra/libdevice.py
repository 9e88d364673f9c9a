"""`tl.extra.libdevice`: the libdevice functions this version can compute on every target."""
from .. import _lookup, _names_of


def __getattr__(name):
    if name == "__all__":
        return __dir__()
    return _lookup("triton.language.extra.libdevice", name)


def __dir__():
    return _names_of("triton.language.extra.libdevice")
