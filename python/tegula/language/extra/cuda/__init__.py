"""`tl.extra.cuda`: what a kernel can ask of the GPU it runs on; the same calls have the nearest meaning on other devices."""
from ... import _lookup
from .. import libdevice


def __getattr__(name):
    return _lookup("triton.language.extra.cuda", name)
