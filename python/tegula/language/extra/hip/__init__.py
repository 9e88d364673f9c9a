"""`tl.extra.hip`: libdevice under the name that it has for AMD's GPUs, which kernels written there import."""
from .. import libdevice
