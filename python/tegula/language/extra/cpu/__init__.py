"""`tl.extra.cpu`: libdevice under the name that it has for CPUs."""
from .. import libdevice
