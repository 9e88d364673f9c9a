"""What programs written for Triton import from triton.compiler, as far as it is there."""
from ..errors import CompilationError
from .compiler import CompiledKernel, make_backend
