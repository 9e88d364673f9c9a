"""What of triton.runtime.cache other libraries ask for."""
from ..compiler.compiler import triton_key
