"""Random programs as values: a small tree of typed expressions and statements, its traversal and its text.

How the folder works. generate.py draws a `Program`; reference.py evaluates it with numpy, one program of the grid after
the other, and knows nothing of our compiler; run.py prints it as a kernel, runs it on a device and compares every
buffer
bit for bit; shrink.py operates on the tree (deletes statements, replaces expressions by operands or constants, halves
extents, trip counts and the grid) for as long as the failure stays; soak.py does all that for ranges of seeds in child
processes that may crash or hang. features.py counts what the programs have.

Why a failure is a bug. The reference refuses (`Undefined`) whatever has more than one right result: division by zero,
conversions out of range, accesses out of bounds, float sums that depend on their order, combine functions
that are not associative, two programs that touch one element (other than by atomics of one commuting kind), and, where
`Program.ordered` does not ask for that, accesses through two arguments to one element without a barrier between them. The generator avoids most of that, and repairs what
the reference refuses; the shrinker drops candidates that it refuses. Floats are added, multiplied, divided (div_rn),
rounded and compared with contraction off, or with contraction on if every result was exact; so comparison is exact, any
NaN being equal to any NaN. Nothing here has tolerances.
"""
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

NUMPY = {
    "int1": np.dtype(np.bool_),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2),
    "float8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
NAME = {v: k for k, v in NUMPY.items()}
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
FP8 = ("float8e5", "float8e4nv")
FLOATS = ("float16", "bfloat16", "float32", "float64")
MAX_NUMEL = 1 << 14


def bits(dtype):
    return 1 if dtype == "int1" else NUMPY[dtype].itemsize * 8


@dataclass(frozen=True)
class Type:
    """A scalar (shape ()) or a tile. dtype: a name of the language, or `*name` for pointers to it."""
    dtype: str
    shape: tuple = ()

    @property
    def numel(self):
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def is_pointer(self):
        """`*name`: pointers to elements; `&name`: a block pointer, whose shape is the block's."""
        return self.dtype[0] in "*&"


class E:
    """An expression: an operation of rules.RULES, its operands, its compile-time attributes, the type it has.

    Operations with several results have a tuple of types and stand only on the right of an Assign with as many names.
    Never changed after it was made; compared by identity."""
    __slots__ = ("op", "args", "attrs", "type")

    def __init__(self, op, args, attrs, type_):
        self.op, self.args, self.attrs, self.type = op, tuple(args), attrs, type_

    def __repr__(self):
        from text import expression
        return expression(self)


@dataclass(eq=False)
class Assign:
    """names = value; one name, or as many as `value` has results."""
    names: tuple
    value: E


@dataclass(eq=False)
class Store:
    pointer: E
    value: E  # of a dtype that converts to the pointer's, and a shape that broadcasts to it
    mask: E = None
    hint: str = ""  # an argument that changes no result


@dataclass(eq=False)
class BlockStore:
    """Through a block of `kind` "descriptor" or "pointer" (tl.make_block_ptr): what is outside its extents is
    dropped."""
    kind: str
    pointer: E
    value: E
    offsets: tuple
    attrs: dict


@dataclass(eq=False)
class Effect:
    """An expression statement: an atomic whose result nobody needs."""
    value: E


@dataclass(eq=False)
class For:
    """kind: "range", "tl.range" (with `options`) or "tl.static_range". The variable has the type of the bounds, int32 or int64."""
    name: str
    start: E
    stop: E
    step: E
    body: list
    kind: str = "range"
    options: dict = field(default_factory=dict)
    other: list = field(default_factory=list)  # its `else`


@dataclass(eq=False)
class While:
    condition: E
    body: list
    other: list = field(default_factory=list)


@dataclass(eq=False)
class Break:
    pass


@dataclass(eq=False)
class Continue:
    pass


@dataclass(eq=False)
class If:
    condition: E
    then: list
    other: list


@dataclass(eq=False)
class Return:
    """From a helper with its results, or early from the kernel with none."""
    values: tuple = ()


@dataclass(eq=False)
class Barrier:
    pass


@dataclass(eq=False)
class Function:
    """A helper. `types`: of its parameters at its calls (all calls agree)."""
    name: str
    parameters: tuple
    body: list
    noinline: bool = False


@dataclass(frozen=True)
class Buffer:
    """Memory of a launch: `recipe` says how data.py fills it, from `seed`."""
    name: str
    dtype: str
    size: int
    recipe: str
    seed: int = 0


@dataclass(frozen=True)
class Argument:
    """A parameter of the kernel: a pointer `offset` elements into `buffer`, or (buffer None) an int32 `value`, not 1,
    which would be a compile-time number. dtype: of the elements that it points to, if they are not the buffer's; the offset
    counts these."""
    name: str
    buffer: str = None
    offset: int = 0
    value: int = 0
    dtype: str = None


@dataclass(eq=False)
class Program:
    buffers: list
    arguments: list
    functions: list
    body: list
    grid: tuple = (1, )
    options: dict = field(default_factory=dict)
    seed: int = 0
    # Pairs of names of the kernel that are the fields of an aggregate, or with "tuple" behind them the items of a tuple, from where both are known.
    bundles: tuple = ()
    # Accesses through two arguments to one element need no barrier between them: a program's accesses are in order.
    ordered: bool = False

    def function(self, name):
        return next((f for f in self.functions if f.name == name), None)

    def buffer(self, name):
        return next(b for b in self.buffers if b.name == name)

    def element(self, a):
        """The dtype that an argument points to."""
        return a.dtype or self.buffer(a.buffer).dtype


# Traversal -----------------------------------------------------------------------------------------------------------


def expressions(s):
    """The expressions directly in a statement, not those of statements inside it."""
    if isinstance(s, (Assign, Effect)):
        return (s.value, )
    if isinstance(s, Store):
        return tuple(e for e in (s.pointer, s.value, s.mask) if e is not None)
    if isinstance(s, BlockStore):
        return (s.pointer, s.value) + tuple(s.offsets)
    if isinstance(s, For):
        return (s.start, s.stop, s.step)
    if isinstance(s, (While, If)):
        return (s.condition, )
    if isinstance(s, Return):
        return tuple(s.values)
    return ()


def blocks(s):
    """The lists of statements inside a statement."""
    if isinstance(s, (For, While)):
        return (s.body, s.other) if s.other else (s.body, )
    if isinstance(s, If):
        return (s.then, s.other)
    return ()


def walk_expression(e):
    yield e
    for a in e.args:
        yield from walk_expression(a)


def walk(body):
    """Every statement, outer ones first."""
    for s in body:
        yield s
        for b in blocks(s):
            yield from walk(b)


def bodies(p):
    return [p.body] + [f.body for f in p.functions]


def all_statements(p):
    for b in bodies(p):
        yield from walk(b)


def all_expressions(p):
    for s in all_statements(p):
        for e in expressions(s):
            yield from walk_expression(e)


def lines(p):
    """Statements of the program, the measure of its length."""
    return sum(1 for _ in all_statements(p))


# Surgery -------------------------------------------------------------------------------------------------------------


def rebuild_statement(s, ex, block):
    if isinstance(s, Assign):
        return Assign(s.names, ex(s.value))
    if isinstance(s, Effect):
        return Effect(ex(s.value))
    if isinstance(s, Store):
        return Store(ex(s.pointer), ex(s.value), ex(s.mask) if s.mask is not None else None, s.hint)
    if isinstance(s, BlockStore):
        return BlockStore(s.kind, ex(s.pointer), ex(s.value), tuple(map(ex, s.offsets)), s.attrs)
    if isinstance(s, For):
        return For(s.name, ex(s.start), ex(s.stop), ex(s.step), block(s.body), s.kind, s.options, block(s.other))
    if isinstance(s, While):
        return While(ex(s.condition), block(s.body), block(s.other))
    if isinstance(s, If):
        return If(ex(s.condition), block(s.then), block(s.other))
    if isinstance(s, Return):
        return Return(tuple(map(ex, s.values)))
    return s


def substitute(p, nodes=None, statements=None, edit=None):
    """A copy of `p`: expressions by `nodes` (id -> E), statements by `statements` (id -> list of statements), then each
    expression by `edit`(node, operands) if given. What did not change is shared."""
    nodes, statements = nodes or {}, statements or {}

    def ex(e):
        if id(e) in nodes:
            return nodes[id(e)]
        args = tuple(ex(a) for a in e.args)
        if edit:
            return edit(e, args)
        return e if all(a is b for a, b in zip(args, e.args)) else E(e.op, args, e.attrs, e.type)

    def block(b):
        out = []
        for s in b:
            out += statements[id(s)] if id(s) in statements else [rebuild_statement(s, ex, block)]
        return out

    return replace(p, body=block(p.body), functions=[replace(f, body=block(f.body)) for f in p.functions])
