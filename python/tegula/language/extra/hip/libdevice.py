"""The same functions as `tl.extra.libdevice`: this name is that module itself."""
import sys

from .. import libdevice

sys.modules[__name__] = libdevice
