"""`triton.compiler.code_generator`: from a kernel to the first IR, which is tegula's tile IR and made in C++ (src/sema)."""
import ast

from .compiler import compile
from .errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct

__all__ = ["CodeGenerator", "ast_to_ttir", "kernel_suffix", "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"]


def ast_to_ttir(fn, src, context=None, options=None, codegen_fns=None, module_map=None, module=None):
    """The tile IR of an ASTSource, as text, for the active device. What Triton's own context and callbacks are is not looked at."""
    given = {k: v for k, v in vars(options).items() if k in ("num_warps", "num_stages", "num_ctas", "debug")} if options is not None else None
    return compile(src, options=given).asm["tile"]


def kernel_suffix(signature, specialization):
    """"0d1d2c": which arguments are divisible by 16 (d) and which are 1 (c)."""
    names = list(signature)
    ones = set(getattr(specialization, "equal_to_1", ()) or ())
    divisible = set(getattr(specialization, "divisible_by_16", ()) or ())
    return "".join(f"{i}{'c' if i in ones else ''}{'d' if i in divisible else ''}" for i in range(len(names)))


class CodeGenerator(ast.NodeVisitor):
    """Triton's walk of a kernel's text, for programs that import its name or put their own methods in it: nothing calls them, as the walk is done in C++."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("kernels are compiled by C++ (triton.compile, ast_to_ttir); there is no walk of Python's ast to make one's own")

    def visit_compound_statement(self, stmts):
        """Not called."""
