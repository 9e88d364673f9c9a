"""What programs written for Triton import from triton.compiler."""
from ..errors import CompilationError
from . import errors
from .compiler import ASTSource, CompiledKernel, IRSource, LazyDict, compile, get_cache_key, make_backend, max_shared_mem
