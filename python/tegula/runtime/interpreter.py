"""The interpreter: Python itself runs a kernel's function, program by program, so that print, breakpoint() and debuggers work in it.

Operations on tiles are carried out by the compiler's own evaluator (`_core.Eager`: the same table of functions, the same promotion and errors, the
reference interpreter of the IR for the elements), so a value has the type and the bits that the compiled kernel gives it. Of the function's
text only what means something else in kernels than in Python is rewritten before it runs (`_Rewriter`): assignments make tensors of numbers,
`and`, `or`, `not`, chained comparisons and `a if c else b` take tiles, `range` counts in tensors. Lines stay where they are.
"""
import ast
import bdb
import functools
import linecache
import os
import sys
import types

from .. import _aggregate, _core, knobs
from .._memory import memory_of
from .._specialize import specialize_parameter
from ..errors import CompilationError, InterpreterError
from .._arrays import numpy_pointer
from .._arguments import argument_of
from .._calls import Call
from .._options import option_defaults
from .._values import namedtuple_classes, to_value as _constant
from .._function import InterpretedFunction
from ..language import _tensor, _types
from ..language._tensor import _active, require_session, session, tensor

_unwrap = lambda x: x.value if isinstance(x, _types.constexpr) else x


# ------------------------------------------------------------------------------------------------------------------ values of the language


class Handle:
    """A value of the language that Python has no class for: a block pointer, a tensor descriptor, the type of a tile."""

    __slots__ = ("_value",)

    def __init__(self, value):
        self._value = value

    def __getattr__(self, name):
        return attribute(self, name)

    def __repr__(self):
        return repr(self._value)


class Tuple(tuple):
    """Tuples and lists are one thing in kernels."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other):
        return tuple(map(_unwrap, self)) == tuple(map(_unwrap, other)) if isinstance(other, (tuple, list)) else NotImplemented

    def __ne__(self, other):
        return not self == other if isinstance(other, (tuple, list)) else NotImplemented

    def __add__(self, other):
        return Tuple((*self, *other)) if isinstance(other, (tuple, list)) else NotImplemented

    def __radd__(self, other):
        return Tuple((*other, *self)) if isinstance(other, (tuple, list)) else NotImplemented

    def __mul__(self, count):
        return Tuple(tuple(self) * _unwrap(count))

    __rmul__ = __mul__

    def __getitem__(self, index):
        found = tuple.__getitem__(self, index)
        return Tuple(found) if isinstance(index, slice) else found


_NONE, _BOOL, _INT, _FLOAT, _STR, _DTYPE, _TUPLE, _RECORD, _CLASS, _FUNCTION, _BUILTIN = range(11)


def to_value(x):
    """For what C++ (python/src/Eager.cpp) does not convert by itself."""
    if isinstance(x, Handle):
        return x._value
    return _constant(x)


def from_value(v):
    """The Python object for a value that is no number, tuple or tensor."""
    kind = _core.value_kind(v)
    if kind == _STR:
        return ast.literal_eval(repr(v))
    if kind == _DTYPE:
        return _dtype(repr(v))
    if kind == _RECORD:
        cls, fields = _core.value_parts(v)
        for python, known in list(namedtuple_classes.items()):
            if _core.value_same(cls, known):
                return python(*fields)
    return Handle(v)


def _dtype(text):
    """float32, pointer<float16>, pointer<const float16>"""
    if not text.startswith("pointer<"):
        return _types.dtype(text)
    inner = text[len("pointer<"):-1]
    return _types.pointer_type(_types.dtype(inner.removeprefix("const ")), const=inner.startswith("const "))


_methods = {}  # of tensors, by name: their functions


def attribute(x, name):
    """`x.name` of a tensor or Handle."""
    if name.startswith("__"):
        raise AttributeError(name)
    is_tensor = isinstance(x, tensor)
    found = _methods.get(name) if is_tensor else None
    if found is None:
        try:
            found = require_session().attribute(x, name)
        except CompilationError as e:
            if e.kind == "noAttribute":
                raise AttributeError(f"{type(x).__name__} has no attribute `{name}`") from None
            raise
        if type(found) is not _core.Value:
            return found
        if is_tensor:
            _methods[name] = found
    return functools.partial(_call_value, found, x)


def _call_value(callee, *args, **kwargs):
    return require_session().call(callee, args, kwargs)


def call_language(f, args, kwargs):
    """A function of the language, called by a kernel that is interpreted."""
    special = _SPECIAL.get(f.__name__)
    if special and f.__module__ == "triton.language":
        return special(*args, **kwargs)
    value = f.__dict__.get("_tegula_value")
    if value is None:
        value = f.__dict__["_tegula_value"] = to_value(f)
    return require_session().call(value, args, kwargs)


# -------------------------------------------------------------------------------------------------- Python's syntax, as kernels understand it


def decay(x):
    """What an assignment makes of a value: numbers become tensors, also in tuples."""
    x = _unwrap(x)
    if isinstance(x, (bool, int, float)):
        return require_session().operate("decay", x)
    if type(x) in (tuple, list, Tuple):
        return Tuple(map(decay, x))
    return x


def _assigned(x, constants):
    """The same for several targets: what those are given stays as it is where `constants`, a tuple as deep as the targets, is True."""
    if constants is True:
        return x
    items = _unwrap(x)
    if not constants or not isinstance(items, (tuple, list)) or len(items) != len(constants):
        return decay(x)
    return Tuple(map(_assigned, items, constants))


def _counting(arg1, arg2=None, step=None, **hints):
    """range() and tl.range(): a run-time loop, so its variable is a tensor."""
    bounds = [0, arg1] if arg2 is None else [arg1, arg2]
    bounds = [_unwrap(b) for b in (*bounds, 1 if step is None else step)]
    for b in bounds:
        if not isinstance(b, (int, tensor)):
            raise TypeError(f"range() takes integers, found {b!r}")
    s = require_session()
    name = _core.tensor_info(functools.reduce(lambda a, b: s.operate("+", a, b), map(decay, bounds)))[0]
    for i in range(*(b.__index__() for b in bounds)):
        yield _core.eager_scalar(name, "", i)


def _static_range(arg1, arg2=None, step=None):
    bounds = (0, arg1) if arg2 is None else (arg1, arg2)
    return range(*(_unwrap(b) for b in (*bounds, 1 if step is None else step)))


def _extremum(name, python):
    def pick(*args):
        items = args[0] if len(args) == 1 else args
        items = [_unwrap(x) for x in items]
        if not any(isinstance(x, tensor) for x in items):
            return python(items)
        from .. import language as tl
        return functools.reduce(getattr(tl, name), items)
    return pick


def _logic(is_and, *operands):
    """`and`, `or`: compile-time operands decide as in Python; those of run time are all evaluated and combined."""
    found, last = [], None
    for operand in operands:
        last = operand()
        if isinstance(last, tensor):
            found.append(last)
        elif bool(last) != is_and:
            return last
    combine = functools.partial(require_session().operate, "and" if is_and else "or")
    return functools.reduce(combine, found) if found else last


def _chain(names, first, *others):
    """a < b < c"""
    found, last, a = [], True, first
    for name, other in zip(names, others):
        b = other()
        last = _COMPARISONS[name](a, b)
        if isinstance(last, tensor):
            found.append(last)
        elif not last:
            return last
        a = b
    return functools.reduce(functools.partial(require_session().operate, "and"), found) if found else last


_COMPARISONS = {"Eq": lambda a, b: a == b, "NotEq": lambda a, b: a != b, "Lt": lambda a, b: a < b, "LtE": lambda a, b: a <= b,
                "Gt": lambda a, b: a > b, "GtE": lambda a, b: a >= b}


def _negation(x):
    return require_session().operate("not", x) if isinstance(x, tensor) else not x


def _choice(condition, then, otherwise):
    """`a if c else b`: both are tensors if the condition is one."""
    picked = then() if condition else otherwise()
    return decay(picked) if isinstance(condition, tensor) else picked


def _check(condition, message):
    if not isinstance(condition, tensor):
        assert condition, message()
    else:
        from .. import language as tl
        tl.device_assert(condition, message() or "")


def _refuse(kind, message):
    """A statement that Triton does not have, reached in a launch with strict=True."""
    if _active.strict:
        raise CompilationError(f"{message} [{kind}]", [{"severity": "error", "kind": kind, "message": message}])


def _test(condition, *refusals):
    """The condition of an `if` with such statements directly in its branches. Both branches of a run-time condition are compiled, so both count as reached."""
    if isinstance(condition, tensor):
        for r in refusals:
            _refuse(*r)
    return condition


def _value(x):
    """x.value: a compile-time value is its own."""
    return x.value if hasattr(x, "value") else x


def _isinstance(x, classes):
    for c in classes if isinstance(classes, (tuple, list)) else (classes,):
        if isinstance(c, type):
            # Every compile-time value counts as wrapped.
            if isinstance(x, c) or (c is _types.constexpr and not isinstance(x, (tensor, Handle, tuple))):
                return True
        elif isinstance(x, c):  # tl.tensor_descriptor
            return True
    return False


_SPECIAL = {"range": _counting, "static_range": _static_range, "condition": lambda arg1, disable_licm=False: arg1}
_helpers = types.SimpleNamespace(decay=decay, assigned=_assigned, logic=_logic, chain=_chain, negation=_negation, choice=_choice, check=_check, value=_value, refuse=_refuse, test=_test)
_BUILTINS = {"range": _counting, "min": _extremum("minimum", min), "max": _extremum("maximum", max), "isinstance": _isinstance}
for _name, _f in _BUILTINS.items():
    setattr(_helpers, _name, _f)
_HELPERS = "__tegula__"


# What strict=True refuses of statements: the compiler's words.
_EXITS = {ast.Break: ("unsupportedStmt", "unsupported AST node type: Break; put the condition into the bounds, or use `while`"),
          ast.Continue: ("unsupportedStmt", "unsupported AST node type: Continue; put the rest of the body under an `if`"),
          ast.Return: ("returnInLoop", "Cannot have `return` statements inside `while` or `for` statements in kernels")}


class _Rewriter(ast.NodeTransformer):
    """From what a kernel's text means in the language to Python that does it."""

    def __init__(self, shadowed):
        self.shadowed = shadowed  # names that are not Python's own here
        self.constants = set()  # names declared `x: tl.constexpr`
        self.in_runtime_loop = False  # within a loop that is not unrolled

    def statements(self, body):
        """One statement may become several."""
        found = [self.visit(s) for s in body]
        return [s for x in found for s in (x if isinstance(x, list) else [x])]

    def _refusal(self, node, kind, message):
        constants = (ast.copy_location(ast.Constant(text), node) for text in (kind, message))
        return ast.copy_location(ast.Expr(self._call("refuse", node, *constants)), node)

    def _leaves(self, node):
        """Does strict=True refuse it?"""
        return isinstance(node, (ast.Break, ast.Continue)) or isinstance(node, ast.Return) and self.in_runtime_loop

    def _exit(self, node):
        self.generic_visit(node)
        return [self._refusal(node, *_EXITS[type(node)]), node] if self._leaves(node) else node

    visit_Break = visit_Continue = visit_Return = _exit

    def _loop(self, node):
        iterable = getattr(node, "iter", None)
        name = getattr(iterable, "func", None)
        is_static = getattr(name, "attr", getattr(name, "id", None)) == "static_range"
        orelse, node.orelse = node.orelse, []  # which is not in the loop
        outer, self.in_runtime_loop = self.in_runtime_loop, self.in_runtime_loop or not is_static
        self.generic_visit(node)
        self.in_runtime_loop = outer
        node.orelse = self.statements(orelse)
        if not orelse:
            return node
        word = "for" if isinstance(node, ast.For) else "while"
        return [self._refusal(node, "loopElse", f"`{word}` with `else` is not supported in kernels"), node]

    visit_For = visit_While = _loop

    def visit_If(self, node):
        refusals = [_EXITS[type(s)] for s in (*node.body, *node.orelse) if self._leaves(s)]
        self.generic_visit(node)
        if refusals:
            pairs = (ast.copy_location(ast.Constant(pair), node.test) for pair in refusals)
            node.test = self._call("test", node.test, node.test, *pairs)
        return node

    def _call(self, name, node, *args):
        target = ast.Attribute(ast.Name(_HELPERS, ast.Load()), name, ast.Load())
        return ast.copy_location(ast.Call(target, list(args), []), node)

    def _later(self, node):
        none = ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
        return ast.copy_location(ast.Lambda(none, node), node)

    def _names_anew(self, node):
        """Does evaluating it bind a name? In a lambda that would be another one."""
        return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and node.id in _BUILTINS and node.id not in self.shadowed:
            return ast.copy_location(ast.Attribute(ast.Name(_HELPERS, ast.Load()), node.id, ast.Load()), node)
        return node

    def visit_Assign(self, node):
        self.generic_visit(node)
        constants = [self._constants_in(t) for t in node.targets]
        if not all(constants) or len(set(constants)) > 1:
            node.value = self._call("decay", node.value, node.value)
        elif constants != [True]:
            node.value = self._call("assigned", node.value, node.value, ast.copy_location(ast.Constant(constants[0]), node))
        return node

    def _constants_in(self, target):
        """True for a name that was declared a constant; for targets with such names a tuple of what this gives for each; else False."""
        if isinstance(target, (ast.Tuple, ast.List)):
            found = tuple(map(self._constants_in, target.elts))
            return any(found) and found
        return isinstance(target, ast.Name) and target.id in self.constants

    def visit_AnnAssign(self, node):
        a = node.annotation
        constant = getattr(a, "attr", getattr(a, "id", getattr(a, "value", None))) in ("constexpr", "tl.constexpr")
        if constant and isinstance(node.target, ast.Name):
            self.constants.add(node.target.id)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        value = self.visit(node.value)
        return ast.copy_location(ast.Assign([node.target], value if constant else self._call("decay", value, value)), node)

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        new = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self._call("decay", new, new)), node)

    def visit_NamedExpr(self, node):
        self.generic_visit(node)
        if node.target.id not in self.constants:
            node.value = self._call("decay", node.value, node.value)
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        if self._names_anew(node):
            return node
        is_and = ast.copy_location(ast.Constant(isinstance(node.op, ast.And)), node)
        return self._call("logic", node, is_and, *map(self._later, node.values))

    def visit_Compare(self, node):
        self.generic_visit(node)
        names = [type(o).__name__ for o in node.ops]
        if len(names) == 1 or self._names_anew(node) or not set(names) <= set(_COMPARISONS):
            return node
        listed = ast.copy_location(ast.Tuple([ast.copy_location(ast.Constant(n), node) for n in names], ast.Load()), node)
        return self._call("chain", node, listed, node.left, *map(self._later, node.comparators))

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return self._call("negation", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node):
        self.generic_visit(node)
        return node if self._names_anew(node) else self._call("choice", node, node.test, self._later(node.body), self._later(node.orelse))

    def visit_Assert(self, node):
        self.generic_visit(node)
        message = node.msg or ast.copy_location(ast.Constant(""), node)
        return ast.copy_location(ast.Expr(self._call("check", node, node.test, self._later(message))), node)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        is_read = node.attr == "value" and isinstance(node.ctx, ast.Load)
        return self._call("value", node, node.value) if is_read else node


def _code_named(code, name):
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def python_function(kernel):
    """The function of a JITFunction, rewritten; made once."""
    text, first = kernel._source["text"], kernel._source["first_line"]
    cached = kernel.__dict__.get("_interpreted")
    if cached and cached[0] == text:
        return cached[1]
    fn = kernel.fn
    tree = ast.parse(text)
    definition = next(s for s in tree.body if isinstance(s, ast.FunctionDef))
    local = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    a = definition.args
    params = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    shadowed = local | {p.arg for p in params} | set(fn.__globals__) | set(fn.__code__.co_freevars)
    for p in params:
        p.annotation = None
    a.defaults, a.kw_defaults = [], [None] * len(a.kwonlyargs)
    definition.decorator_list, definition.returns = [], None
    rewriter = _Rewriter(shadowed)
    definition.body = rewriter.statements(definition.body)
    # In a function around it, the names that it captures are captured again.
    around = ast.parse("def around(): pass")
    captured = [_HELPERS, *fn.__code__.co_freevars]
    around.body[0].args.args = [ast.arg(n) for n in captured]
    around.body[0].body = [definition]
    ast.increment_lineno(definition, first - 1)
    line = linecache.getline(kernel._source["file"], first)
    for node in ast.walk(definition):  # the text came without the indentation that it has in its file
        if hasattr(node, "col_offset"):
            node.col_offset += len(line) - len(line.lstrip())
            node.end_col_offset += len(line) - len(line.lstrip())
    ast.fix_missing_locations(around)
    definition.name = _HELPERS + "kernel"  # inside, its own name is the one outside
    code = _code_named(_code_named(compile(around, kernel._source["file"], "exec", dont_inherit=True), "around"), definition.name)
    code = code.replace(co_name=fn.__name__, **({"co_qualname": fn.__qualname__} if hasattr(code, "co_qualname") else {}))
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    cells[_HELPERS] = types.CellType(_helpers)
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[n] for n in code.co_freevars))
    made.__kwdefaults__, made.__qualname__, made.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    kernel.__dict__["_interpreted"] = text, made
    return made


# ---------------------------------------------------------------------------------------------------------------------------- launches


class _Arguments:
    """The arguments of a launch as values, and the memory behind them."""

    def __init__(self, s):
        self.session = s
        self.copies = {}  # storage of a GPU: (it, its copy)

    def value(self, x, code, name):
        x = _unwrap(x)
        if isinstance(code, tuple) and _aggregate.is_aggregate(type(x)):
            named = zip(type(x)._tegula_fields, code)
            return _aggregate.with_values(x, [getattr(x, n) if c == "constexpr" else self.value(getattr(x, n), c, f"{name}.{n}") for n, c in named])
        if isinstance(code, tuple):
            items = [self.value(i, c, f"{name}.{n}") for n, (i, c) in enumerate(zip(x, code))]
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        if code == "constexpr":
            return x
        if code.startswith("tensordesc"):
            return self.descriptor(x, name)
        if code.startswith("*"):
            return self.pointer(x, code, name)
        if hasattr(x, "item") and not isinstance(x, (int, float)):
            x = x.item()
        return _core.eager_scalar(code, "", x if code.startswith(("fp", "bf")) else int(x))

    def pointer(self, x, code, name):
        address, size, writable = self.memory(x, name)
        const = code.startswith("*k")
        return _core.eager_scalar(code[2:] if const else code[1:], "k" if const else "*", address)

    def memory(self, x, name):
        """(address, bytes from there or -1, writable); tells the session of the whole memory that it is part of."""
        numpy_array = x if type(x).__name__ == "ndarray" else None
        if numpy_array is not None:
            address, _, size, facts = numpy_pointer(numpy_array)[:4]
            gpu = -1
        else:
            found = argument_of(x, name)
            if not isinstance(found, tuple):
                raise TypeError(f"argument `{name}` is no tensor")
            address, _, size, facts, gpu = found[:5]
        tensor_of = getattr(x, "base", x)  # of a TensorWrapper
        if gpu >= 0:
            storage = getattr(tensor_of, "untyped_storage", None)
            if storage is None and not (hasattr(tensor_of, "cpu") and hasattr(tensor_of, "copy_") and hasattr(tensor_of, "nbytes")):
                raise TypeError(f"argument `{name}`: the interpreter copies tensors of PyTorch from a GPU, no {type(x).__name__}")
            original = storage() if storage else tensor_of
            if original.data_ptr() not in self.copies:
                copy = original.cpu()
                self.copies[original.data_ptr()] = original, copy
                self.session.add_buffer(name, copy.data_ptr(), copy.nbytes() if storage else copy.nbytes, True)
            copy = self.copies[original.data_ptr()][1]
            return copy.data_ptr() + (address - original.data_ptr()), -1, True
        whole = memory_of(x)
        if whole is None:
            whole = address, max(size, -1)
        self.session.add_buffer(name, *whole, not facts & 1)
        return address, size, not facts & 1

    def descriptor(self, x, name):
        from .. import language as tl
        base = self.pointer(x.base, "*" + _code_of(x.base), name)
        strides = [*map(int, x.strides[:-1]), 1]
        made = tl.make_tensor_descriptor(base, [decay(int(n)) for n in x.shape], [_core.eager_scalar("i64", "", n) for n in strides[:-1]] + [1],
                                         list(map(int, x.block_shape)), padding_option=getattr(x, "padding", "zero"))
        if not getattr(x, "round_f32_to_tf32", False):
            return made
        cls, fields = _core.value_parts(made._value)  # no kernel can ask for that, so no function of the language makes it
        return Handle(_core.value_record(cls, [to_value(f) for f in (*fields[:-1], True)]))

    def copy_back(self):
        for original, copy in self.copies.values():
            original.copy_(copy)


def _code_of(x):
    from .._specialize import canonicalize_dtype
    return canonicalize_dtype(x.dtype)


_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def _place(trace):
    """The operation under way when an exception was raised, as the compiler shows places: in the innermost function that is none of ours."""
    found = None
    while trace:
        if not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            found = trace
        trace = trace.tb_next
    if found is None:
        return ""
    code, line = found.tb_frame.f_code, found.tb_lineno
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    first, last, begin, end = list(code.co_positions())[found.tb_lasti // 2] if hasattr(code, "co_positions") else (None,) * 4  # Python 3.10 has none
    if first != line or begin is None or end is None or not text:
        return f"\n{code.co_filename}:{line}" + (f":\n{line:4} | {text}" if text else "")
    column = lambda n: len(text.encode()[:n].decode(errors="replace"))
    begin, end = column(begin), column(end) if last == line else len(text)
    return f"\n{code.co_filename}:{line}:{begin + 1}:\n{line:4} | {text}\n     | {' ' * begin}^{'~' * (end - begin - 1)}"


def run(kernel, grid, args, kwargs):
    """Launches a JITFunction in the interpreter."""
    if session() is not None:
        raise RuntimeError("a kernel that is interpreted cannot launch another one")
    for hook in kernel.pre_run_hooks:
        hook(*args, **kwargs)
    kwargs = {**option_defaults(), **kwargs}
    call = Call(kernel, args, {k: v for k, v in kwargs.items() if k not in ("device", "stream", "device_type")})
    s = _core.Eager(call.options)
    extents = grid(call.arguments) if callable(grid) else grid
    extents = [int(n) for n in extents]
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"a grid has 1 to 3 dimensions, found {len(extents)}")
    if min(extents) < 0:
        raise ValueError(f"grid dimension {extents.index(min(extents))} is negative ({min(extents)})")
    columns, rows, layers = extents + [1] * (3 - len(extents))
    body = python_function(kernel)
    arguments = _Arguments(s)
    _active.session = s
    _active.strict = knobs.language.strict if call.options.get("strict") is None else call.options["strict"]
    try:
        values = {p.name: arguments.value(call.arguments[p.name], code, p.name) for p, (code, _) in zip(kernel.params, call.specialization)}
        positional, named = [], {}
        for p in kernel.params:
            if p.kind == p._param.VAR_POSITIONAL:
                positional += values[p.name]
            elif p.kind == p._param.KEYWORD_ONLY:
                named[p.name] = values[p.name]
            else:
                positional.append(values[p.name])
        for x in range(columns):
            for y in range(rows):
                for z in range(layers):
                    s.set_program(x, y, z, columns, rows, layers)
                    body(*positional, **named)
    except bdb.BdbQuit:
        raise
    except Exception as e:
        if knobs.compilation.front_end_debugging:
            raise
        raise InterpreterError(repr(e) + _place(e.__traceback__)) from e
    finally:
        _active.session = None
    arguments.copy_back()


_core.set_eager(tensor, Tuple, to_value, from_value)


_tensor.interpreter = sys.modules[__name__]
