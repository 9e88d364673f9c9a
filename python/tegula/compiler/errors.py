"""Mistakes in kernels, under the names of triton.compiler.errors."""
from ..errors import CompilationError, CompileTimeAssertionFailure, TritonError, UnsupportedLanguageConstruct
