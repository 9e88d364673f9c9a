"""`tl.extra.cuda`: what a kernel can ask of the GPU it runs on; the same calls have the nearest meaning on other devices."""
from ... import _lookup, _names_of
from .. import libdevice


def __getattr__(name):
    if name == "__all__":
        return __dir__()
    return _lookup("triton.language.extra.cuda", name)


def __dir__():
    return _names_of("triton.language.extra.cuda")
