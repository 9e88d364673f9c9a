"""Host-side helpers of kernels: tensor_descriptor, disasm."""
from . import tensor_descriptor
