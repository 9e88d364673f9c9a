"""Host-side helpers of kernels: tensor_descriptor, ragged_tma, LinearLayout, compile and link (ahead of time), disasm, mxfp."""
from . import tensor_descriptor
from .linear_layout import LinearLayout
