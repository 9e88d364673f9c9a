"""A part of `tl.extra.cuda` where Triton has files of their own; here this name is that module itself."""
import sys

from .. import cuda

sys.modules[__name__] = cuda
