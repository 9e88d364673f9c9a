"""Host-side helpers of kernels: tensor_descriptor."""
from . import tensor_descriptor
