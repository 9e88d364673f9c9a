"""flex_attention on CPUs: Inductor's lowering goes to a template in C++ for them before it looks at `cpu_backend`; here it looks."""
import ast
import inspect
import textwrap


def _emits_cpp():
    from torch._inductor import config
    return config.cpu_backend == "cpp"


def _returns_call_of(statement, name):
    last = statement.body[-1]
    return isinstance(last, ast.Return) and isinstance(last.value, ast.Call) and isinstance(last.value.func, ast.Name) and last.value.func.id == name


def lower_by_template(module):
    """Registers the lowering of torch._inductor's module of flex_attention again, with `if cpu: return lower_cpu(...)` for C++ only."""
    if getattr(module, "_emits_cpp", None) is _emits_cpp:
        return
    function = inspect.unwrap(module.flex_attention)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    branches = [s for s in tree.body[0].body if isinstance(s, ast.If) and _returns_call_of(s, "lower_cpu")]
    if len(branches) != 1:
        raise RuntimeError(f"tegula.torch: {module.__name__} has {len(branches)} branches to lower_cpu, there should be one")
    emits_cpp = ast.Call(ast.Name("_emits_cpp", ast.Load()), [], [])
    branches[0].test = ast.BoolOp(ast.And(), [branches[0].test, emits_cpp])
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    module._emits_cpp = _emits_cpp
    exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), module.__dict__)
