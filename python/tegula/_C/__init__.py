"""`triton._C`, for programs that import it: what of it has a meaning here is in `libtriton`."""
from . import libtriton
