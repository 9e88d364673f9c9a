"""How often programs have what real kernels have: `features.py --seeds A..B` prints the share of each feature.

A generator that lost one of them would find nothing there and say nothing, so test_features.py asks for all."""
import argparse
import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library
import program as P
from assembly import ASSEMBLY
from generate import generate
import text
from program import FP8, INTS, Type, bits

FEATURES = {}
ELSEWHERE = ("flip", "gather", "permute", "cumsum", "cumprod", "sort", "split_part", "sum", "amax", "amin", "xor_sum", "reduce", "scan")


def feature(name):

    def add(f):
        FEATURES[name] = f
        return f

    return add


class Facts:
    """What the features ask: expressions by operation, statements by class, arguments by buffer."""

    def __init__(self, p):
        self.p = p
        self.ops = collections.defaultdict(list)
        for e in P.all_expressions(p):
            self.ops[e.op].append(e)
        self.statements = collections.defaultdict(list)
        for s in P.all_statements(p):
            self.statements[type(s)].append(s)
        self.arguments = {a.name: a for a in p.arguments}

    def combines(self, op):
        """(expression, combine function) of reductions or scans."""
        return [(e, self.p.function(e.attrs["function"])) for e in self.ops[op]]

    def indices(self, op):
        """Index operands of loads or atomics of the kernel's memory."""
        return [e.args[0].args[1] for e in self.ops[op] if e.args[0].op == "addptr"]

    def buffer_of(self, pointer):
        names = [e.attrs["name"] for e in P.walk_expression(pointer) if e.op == "var" and e.attrs["name"] in self.arguments]
        buffers = [self.arguments[n].buffer for n in names if self.arguments[n].buffer]
        return self.p.buffer(buffers[0]) if buffers else None

    def base(self, pointer):
        """The argument that an address is made of."""
        while pointer.op in ("addptr", "pointer_cast"):
            pointer = pointer.args[0]
        return pointer.attrs["name"] if pointer.op == "var" and pointer.attrs["name"] in self.arguments else None

    def stores(self):
        return self.statements[P.Store]


def has(e, *ops):
    return any(x.op in ops for x in P.walk_expression(e))


def assigned(body):
    """name -> values given to it."""
    out = collections.defaultdict(list)
    for s in P.walk(body):
        if isinstance(s, P.Assign):
            for n in s.names:
                out[n].append(s.value)
    return out


def carried(f, kind):
    """(name, value) of tiles that a loop changes and had before."""
    for body in P.bodies(f.p):
        before = collections.Counter(n for s in P.walk(body) if isinstance(s, P.Assign) for n in s.names)
        for s in P.walk(body):
            if isinstance(s, kind):
                inside = assigned(s.body)
                for n, values in inside.items():
                    if before[n] > len(values):
                        for v in values:
                            if isinstance(v.type, Type) and v.type.shape and not v.type.is_pointer:
                                yield n, v


def reads_elsewhere(name, v):
    return any(e.op in ELSEWHERE and any(x.op == "var" and x.attrs["name"] == name for x in P.walk_expression(e)) for e in P.walk_expression(v))


for _kind, _class in (("while", P.While), ("for", P.For)):
    feature(f"{_kind} with a carried tile")(lambda f, c=_class: any(True for _ in carried(f, c)))
    feature(f"{_kind} with a tile made from other elements of itself")(
        lambda f, c=_class: any(reads_elsewhere(n, v) for n, v in carried(f, c)))

for _op in ("reduce", "scan"):
    feature(f"{_op} with a combine function")(lambda f, o=_op: f.ops[o])
    feature(f"{_op} with literals in its function")(lambda f, o=_op: any(
        x.op in ("literal", "const") for _, g in f.combines(o) for s in P.walk(g.body) for e in P.expressions(s) for x in P.walk_expression(e)))
    feature(f"{_op} with a branch in its function")(lambda f, o=_op: any(
        isinstance(s, P.If) for _, g in f.combines(o) for s in P.walk(g.body)))
    feature(f"{_op} of several values")(lambda f, o=_op: any(len(e.args) > 1 for e in f.ops[o]))


def strided(f, e):
    """A range of a tile times a number that is not 1."""
    return any(x.op == "mul" and has(x.args[0], "arange") and (x.args[1].op == "literal" and x.args[1].attrs["value"] > 1 or x.args[1].op == "var")
               for x in P.walk_expression(e))


def nibbles(f, e, width):
    """Four bits of integers of `width` bits: by a shift and a mask, or down to the sign."""
    if e.op not in ("and", "shr"):
        return False
    low, high = e.args
    if e.op == "and":
        return low.op == "shr" and high.op == "literal" and high.attrs["value"] == 15 and bits(low.type.dtype) == width
    return low.op == "shl" and all(x.op == "literal" and x.attrs["value"] == 4 for x in (high, low.args[1])) and bits(low.type.dtype) == width


feature("masked load")(lambda f: any(len(e.args) > 1 for e in f.ops["load"]))
feature("masked load by rows and columns")(lambda f: any(
    len(e.args) > 1 and any(x.op == "and" and all(y.op == "lt" and 1 in y.type.shape and y.type.numel > 1 for y in x.args) for x in P.walk_expression(e.args[1]))
    for e in f.ops["load"]))
feature("masked store")(lambda f: any(s.mask is not None for s in f.stores()))
feature("strided load")(lambda f: any(strided(f, i) for i in f.indices("load")))
feature("strided store with gaps")(lambda f: any(
    s.pointer.op == "addptr" and (b := f.buffer_of(s.pointer)) and b.name[0] == "o" and b.size > s.value.type.numel * f.grid_size for s in f.stores()))
feature("stride that is an argument")(lambda f: any(a.startswith("stride") for a in f.arguments))
feature("negative stride")(lambda f: any(
    any(x.op == "sub" and x.args[0].op == "literal" and has(x.args[1], "arange") for x in P.walk_expression(i)) for i in f.indices("load")))
feature("gathered load")(lambda f: any(i.type.shape and has(i, "load", "block_load") for i in f.indices("load")))
feature("index that wraps around")(lambda f: any(any(x.op == "mod" and has(x, "arange") for x in P.walk_expression(i)) for i in f.indices("load")))
feature("store in place")(lambda f: any((b := f.buffer_of(s.pointer)) and b.name[0] == "w" and has(s.value, "load", "var") for s in f.stores()))
feature("store in a loop")(lambda f: any(isinstance(s, P.Store) for k in (P.For, P.While) for l in f.statements[k] for s in P.walk(l.body)))
feature("several pointers into one buffer")(lambda f: max(collections.Counter(a.buffer for a in f.p.arguments if a.buffer).values(), default=0) > 1)


def in_loops(f):
    """(loop, expression) of what stands in loops."""
    for kind in (P.For, P.While):
        for l in f.statements[kind]:
            for s in P.walk(l.body):
                for x in P.expressions(s):
                    yield from ((l, e) for e in P.walk_expression(x))


def moves(l, offsets):
    return any(x.op == "var" and x.attrs["name"] == getattr(l, "name", None) for o in offsets for x in P.walk_expression(o))


feature("box of a descriptor that moves with a loop")(lambda f: any(
    e.op == "block_load" and e.attrs["kind"] != "pointer" and moves(l, e.args[1:]) for l, e in in_loops(f)))
feature("box of a descriptor stored where the loop is")(lambda f: any(
    isinstance(s, P.BlockStore) and s.kind != "pointer" and moves(l, s.offsets) for l in f.statements[P.For] for s in P.walk(l.body)))
feature("dot of boxes in a loop")(lambda f: any(e.op == "dot" and has(e, "block_load") for _, e in in_loops(f)))
feature("dot of masked loads in a loop")(lambda f: any(
    e.op == "dot" and any(x.op == "load" and len(x.args) > 1 for x in P.walk_expression(e)) for _, e in in_loops(f)))
feature("old value of an atomic in a loop")(lambda f: any(
    has(s.value, "atomic", "atomic_old", "atomic_sum") for l in f.statements[P.For] for s in P.walk(l.body) if isinstance(s, P.Assign)))
feature("old values of a masked atomic")(lambda f: f.ops["atomic_old"])
feature("old values of atomics that meet")(lambda f: f.ops["atomic_sum"])
feature("offset of 64 bits")(lambda f: any(e.args[1].type.dtype == "int64" for e in f.ops["addptr"]))
feature("offset beyond 32 bits")(lambda f: any(e.op in ("literal", "const") and e.type.dtype in ("int64", "literal int") and abs(e.attrs["value"]) >= 1 << 31
                                               for a in f.ops["addptr"] for e in P.walk_expression(a.args[1])))
feature("loop with a counter of 64 bits")(lambda f: any(l.start.type.dtype == "int64" for l in f.statements[P.For]))
feature("tuple carried by a loop")(lambda f: any(
    "tuple" in b and set(b[:2]) & {n for s in P.walk(l.body) if isinstance(s, P.Assign) for n in s.names} for b in f.p.bundles for l in f.statements[P.For]))
feature("pointers chosen for each element")(lambda f: any(e.type.is_pointer and e.type.shape for e in f.ops["where"]))
feature("store to one of two places for each element")(lambda f: any(s.pointer.op == "where" for s in f.stores()))
feature("pointers that change places in a loop")(lambda f: any(
    isinstance(s, P.Assign) and s.value.op == "var" and isinstance(s.value.type, Type) and s.value.type.is_pointer for l in f.statements[P.For] for s in P.walk(l.body)))
feature("stored through one argument, loaded through another, no barrier")(lambda f: f.p.ordered and any(
    len({n for e in f.ops["load"] if (n := f.base(e.args[0])) and f.arguments[n].buffer == b.name} | {n for s in f.stores() if (n := f.base(s.pointer)) and f.arguments[n].buffer == b.name}) > 1
    for b in f.p.buffers if any(f.buffer_of(s.pointer) is b for s in f.stores())))
feature("arguments shifted by an element that are written")(lambda f: any(
    a.offset % 8 and (b := f.p.buffer(a.buffer)) and any(f.buffer_of(s.pointer) is b for s in f.stores()) for a in f.p.arguments if a.buffer))
feature("loop of a dot that stores to its operand's memory")(lambda f: any(
    any(f.buffer_of(s.pointer) is f.buffer_of(e.args[0]) is not None for s in P.walk(l.body) if isinstance(s, P.Store) for d in P.walk(l.body) for x in P.expressions(d)
        for e in P.walk_expression(x) if e.op == "load") and any(has(x, "dot") for s in P.walk(l.body) for x in P.expressions(s)) for l in f.statements[P.For]))
feature("arguments to elements of two sizes")(lambda f: any(a.dtype and bits(a.dtype) != bits(f.p.buffer(a.buffer).dtype) for a in f.p.arguments))
feature("elements of two sizes, one of them stored")(lambda f: any(
    a.dtype and any(f.buffer_of(s.pointer) is f.p.buffer(a.buffer) for s in f.stores()) for a in f.p.arguments))
feature("pointer to other elements by a cast")(lambda f: f.ops["pointer_cast"])
feature("conditions combined by a function")(lambda f: any(e.args[0].type.dtype == "int1" for e in f.ops["reduce"]))
feature("narrow integers combined by a function")(lambda f: any(e.args[0].type.dtype in ("int8", "uint8", "int16", "uint16") for e in f.ops["reduce"]))
feature("conditions as integers, the largest of them")(lambda f: any(
    e.args[0].op == "cast" and e.args[0].args[0].type.dtype == "int1" for o in ("amax", "amin") for e in f.ops[o]))
feature("barrier")(lambda f: f.statements[P.Barrier])
feature("atomic")(lambda f: f.ops["atomic"])
feature("atomic with collisions")(lambda f: any(
    (b := f.buffer_of(e.args[0])) and b.name[0] == "s" and e.type.numel * f.grid_size > b.size for e in f.ops["atomic"]))
feature("atomic whose old value is used")(lambda f: any(has(s.value, "atomic") for s in f.statements[P.Assign]))
feature("dot")(lambda f: f.ops["dot"])
feature("dot in a loop over pointers")(lambda f: any(has(e, "dot") for l in f.statements[P.For] for s in P.walk(l.body) for e in P.expressions(s)))
feature("dot of what a dot gave, in a loop that carries a reduction over the first one's columns")(lambda f: any(
    (made := [s.names[0] for s in l.body if isinstance(s, P.Assign) and s.value.op == "dot"]) and any(
        e.op == "dot" and any(x.op == "var" and x.attrs["name"] in made for x in P.walk_expression(e.args[0])) for s in l.body if isinstance(s, P.Assign)
        for e in P.walk_expression(s.value)) and any(isinstance(s, P.Assign) and has(s.value, "amax") for s in l.body) for l in f.statements[P.For]))
feature("step at run time")(lambda f: any(l.step.op != "const" for l in f.statements[P.For]))
feature("dot of an odd shape")(lambda f: any(min(e.type.shape[-2:]) < 16 or max(e.type.shape[-2:]) >= 8 * min(e.type.shape[-2:]) for e in f.ops["dot"]))
feature("dot of three dimensions")(lambda f: any(len(e.type.shape) == 3 for e in f.ops["dot"]))
for _t in ("int8", "float16", "bfloat16", "float32", "float64", "float8e5", "float8e4nv"):
    feature(f"dot of {_t}")(lambda f, t=_t: any(e.args[0].type.dtype == t for e in f.ops["dot"]))
feature("split")(lambda f: f.ops["split"] or f.ops["split_part"])
feature("split down to scalars")(lambda f: any(isinstance(e.type, tuple) and e.type[0].shape == () for e in f.ops["split"]))
feature("dot_scaled")(lambda f: f.ops["dot_scaled"])
feature("map_elementwise")(lambda f: f.ops["map"])
feature("map_elementwise with a loop of each element's own")(lambda f: any(isinstance(s, (P.While, P.For)) for _, g in f.combines("map") for s in P.walk(g.body)))
feature("map_elementwise of several results")(lambda f: any(isinstance(e.type, tuple) for e in f.ops["map"]))
feature("break")(lambda f: f.statements[P.Break])
feature("continue")(lambda f: f.statements[P.Continue])
feature("return in a loop")(lambda f: any(isinstance(s, P.Return) for k in (P.For, P.While) for l in f.statements[k] for s in P.walk(l.body)))
feature("else of a loop")(lambda f: any(l.other for k in (P.For, P.While) for l in f.statements[k]))
feature("slice")(lambda f: any(isinstance(i, tuple) for e in f.ops["slice"] for i in e.attrs["index"]))
feature("item at run time")(lambda f: any(len(e.args) > 1 for e in f.ops["slice"]))
feature("extent that is no power of two")(lambda f: any(
    d & (d - 1) for e in P.all_expressions(f.p) for t in (e.type if isinstance(e.type, tuple) else (e.type, )) for d in t.shape))
feature("aggregate")(lambda f: "Bundle(" in text.kernel(f.p))
feature("block pointer that advances in a loop")(lambda f: any(has(e, "advance") for l in f.statements[P.For] for s in P.walk(l.body) for e in P.expressions(s)))
feature("block pointer that advances and is stored through")(lambda f: f.ops["block_write"])
feature("inline assembly")(lambda f: f.ops["asm"])
feature("inline assembly of packs")(lambda f: any(ASSEMBLY[e.attrs["name"]][4] > 1 for e in f.ops["asm"]))
feature("inline assembly of several results")(lambda f: any(isinstance(e.type, tuple) for e in f.ops["asm"]))
feature("libdevice")(lambda f: f.ops["lib"])
feature("libdevice, to the last bit")(lambda f: any(not library.TABLE[e.attrs["name"]].near for e in f.ops["lib"]))
feature("libdevice, nearly")(lambda f: any(library.TABLE[e.attrs["name"]].near for e in f.ops["lib"]))
feature("libdevice in map_elementwise")(lambda f: any(has(e, "lib") for _, g in f.combines("map") for s in P.walk(g.body) for e in P.expressions(s)))
feature("device_assert")(lambda f: f.ops["assert"])
feature("device_assert under a mask")(lambda f: any(len(e.args) > 1 for e in f.ops["assert"]))
feature("load in map_elementwise")(lambda f: any(has(e, "load") for _, g in f.combines("map") for s in P.walk(g.body) for e in P.expressions(s)))
feature("atomic_load")(lambda f: f.ops["atomic_load"])
feature("atomic_store")(lambda f: f.ops["atomic_store"])
feature("assume")(lambda f: f.ops["assume"])
feature("shift by the width or more")(lambda f: any(
    e.args[1].op == "literal" and e.args[1].attrs["value"] >= bits(e.type.dtype) for o in ("shl", "shr") for e in f.ops[o]))
feature("helper")(lambda f: f.ops["call"])
feature("helper that calls a helper")(lambda f: any(has(e, "call") for g in f.p.functions for s in P.walk(g.body) for e in P.expressions(s)))
feature("noinline helper")(lambda f: any(g.noinline for g in f.p.functions))
feature("helper that returns early")(lambda f: any(isinstance(s, P.Return) for g in f.p.functions for i in P.walk(g.body) if isinstance(i, P.If) for s in P.walk(i.then)))
feature("kernel that returns early")(lambda f: any(isinstance(s, P.Return) for s in P.walk(f.p.body)))
feature("if")(lambda f: f.statements[P.If])
for _kind in ("descriptor", "pointer"):
    feature(f"block load ({_kind})")(lambda f, k=_kind: any(e.attrs["kind"] == k for e in f.ops["block_load"]))
    feature(f"block store ({_kind})")(lambda f, k=_kind: any(s.kind == k for s in f.statements[P.BlockStore]))
for _kind in ("descriptor", "host"):
    feature(f"rows by index ({_kind})")(lambda f, k=_kind: any(e.attrs["kind"] == k for e in f.ops["rows_load"]))
    feature(f"rows stored by index ({_kind})")(lambda f, k=_kind: any(e.attrs["kind"] == k for e in f.ops["rows_store"]))
feature("rows by index beside a dot")(lambda f: any(has(e, "rows_load") for e in f.ops["dot"]))
feature("halves of bytes")(lambda f: any(nibbles(f, e, 8) for e in f.ops["and"] + f.ops["shr"]))
feature("eighths of words")(lambda f: any(nibbles(f, e, 32) for e in f.ops["and"]))
feature("halves of bytes beside a dot")(lambda f: any(any(nibbles(f, x, 8) or nibbles(f, x, 32) for x in P.walk_expression(e)) for e in f.ops["dot"]))
feature("table of sixteen values")(lambda f: any(e.args[0].type.numel == 16 and has(e.args[1], "and") for e in f.ops["gather"]))
feature("descriptor of the host")(lambda f: any(e.attrs["kind"] == "host" for e in f.ops["block_load"] + f.ops["rows_load"]) or any(s.kind == "host" for s in f.statements[P.BlockStore]))
feature("edge values of an int")(lambda f: any(b.recipe == "edge" and b.dtype in INTS for b in f.p.buffers))
feature("edge values of a float")(lambda f: any(b.recipe == "edge" and b.dtype not in INTS + ("int1", ) for b in f.p.buffers))
feature("infinity as a constant")(lambda f: any(isinstance(e.attrs["value"], float) and abs(e.attrs["value"]) == float("inf") for o in ("const", "literal") for e in f.ops[o]))
feature("fp8")(lambda f: any(b.dtype in FP8 for b in f.p.buffers) or any(isinstance(e.type, Type) and e.type.dtype in FP8 for e in P.all_expressions(f.p)))
feature("gather")(lambda f: f.ops["gather"])
feature("sort")(lambda f: f.ops["sort"] or f.ops["topk"])
feature("histogram")(lambda f: f.ops["histogram"])
feature("reduction of its tiles that a loop carries")(lambda f: any(
    isinstance(s, P.Assign) and has(s.value, "sum", "amax", "amin", "xor_sum", "reduce_or") and any(x.op == "var" and x.attrs["name"] == s.names[0] for x in P.walk_expression(s.value))
    for l in f.statements[P.For] for s in P.walk(l.body)))
feature("sum that a loop scales")(lambda f: any(
    e.op == "add" and e.attrs.get("exact") and has(e, "sum") and has(e, "mul") for _, e in in_loops(f)))
feature("attention up to a diagonal")(lambda f: any(
    e.op == "where" and e.args[0].op in ("ge", "gt", "le", "lt", "and") and has(e.args[0], "pid", "arange") and has(l.stop, "pid") for l, e in in_loops(f) if isinstance(l, P.For)))
feature("atomic of a block through a descriptor")(lambda f: f.ops["block_atomic"])
feature("values with their places")(lambda f: f.ops["max_with"] or f.ops["min_with"])
feature("store that converts")(lambda f: any(s.value.type.dtype != s.pointer.type.dtype[1:] for s in f.stores()))
feature("store of fewer elements than pointers")(lambda f: any(s.value.type.shape != s.pointer.type.shape for s in f.stores()))
feature("mask of fewer elements than pointers")(lambda f: any(s.mask is not None and s.mask.type.shape != s.pointer.type.shape for s in f.stores()))
feature("store with a hint")(lambda f: any(s.hint for s in f.stores()))
feature("scalar load under a mask")(lambda f: any(e.type.shape == () and len(e.args) > 1 for e in f.ops["load"]))
feature("masked load without a value")(lambda f: f.ops["load_where"])
feature("extremum with NaN")(lambda f: any(e.attrs.get("nan") for o in ("min", "max") for e in f.ops[o]))
feature("extremum of narrow elements")(lambda f: any(bits(e.args[0].type.dtype) < 32 for o in ("amax", "amin") for e in f.ops[o]))
feature("number of true elements")(lambda f: any(e.args[0].type.dtype == "int1" for e in f.ops["sum"]))
feature("branch that is known when the kernel is compiled")(lambda f: f.ops["static"])
for _op in ("clamp", "cdiv", "exp2", "randint"):
    feature(_op)(lambda f, o=_op: f.ops[o])
def hints(f):
    return {k for l in f.statements[P.For] for k in l.options}


def loops_inside(f):
    """(outer, inner) loops."""
    return [(l, x) for l in f.statements[P.For] for x in P.walk(l.body) if isinstance(x, P.For)]


def named(values, ops):
    """Names of an Assign among `values` whose value has one of `ops`."""
    return {n for s in values if isinstance(s, P.Assign) and has(s.value, *ops) for n in s.names}


def reads(e, names):
    return any(x.op == "var" and x.attrs["name"] in names for x in P.walk_expression(e))


feature("loop of dots in a loop over tiles that stores each")(lambda f: any(
    named(i.body, ("dot", )) and any(isinstance(s, P.Store) and reads(s.value, {n for x in P.walk(o.body) if isinstance(x, P.Assign) for n in x.names}) for s in o.body) for o, i in loops_inside(f)))
feature("accumulator stored in parts")(lambda f: any(
    isinstance(s, P.Assign) and s.value.op == "split" and named(P.walk(b), ("dot", )) and any(isinstance(x, P.Store) and reads(x.value, set(s.names)) for x in P.walk(b))
    for b in [l.body for l in f.statements[P.For]] for s in P.walk(b)))
feature("state that dots read and are added to")(lambda f: any(
    isinstance(s, P.Assign) and s.value.op == "dot" and len(s.value.args) > 2 and reads(s.value.args[2], set(s.names)) and any(
        isinstance(x, P.Assign) and x.value.op == "dot" and reads(x.value.args[1], set(s.names)) for x in l.body) for l in f.statements[P.For] for s in l.body))
feature("operand of a dot at a place that is loaded in the same iteration")(lambda f: any(
    (pages := named(l.body, ("load", ))) and any(e.op == "load" and reads(e.args[0], pages) for s in l.body if isinstance(s, P.Assign) and s.value.op == "dot" for e in P.walk_expression(s.value.args[1]))
    for l in f.statements[P.For]))
feature("pointers that two loops carry")(lambda f: any(
    any(isinstance(s, P.Assign) and isinstance(s.value.type, Type) and s.value.type.is_pointer for s in o.body) and any(
        isinstance(s, P.Assign) and isinstance(s.value.type, Type) and s.value.type.is_pointer for s in i.body) for o, i in loops_inside(f)))
feature("halves that are rotated in place")(lambda f: any(
    isinstance(a, P.Store) and isinstance(b, P.Store) and a.value.op == "sub" and b.value.op == "add" and f.buffer_of(a.pointer) is f.buffer_of(b.pointer) is not None
    for body in P.bodies(f.p) for block in [body] + [l.body for l in P.walk(body) if isinstance(l, P.For)] for k, a in enumerate(block) for b in block[k + 1:k + 3]))
feature("tile beside a dot that a branch stores, too")(lambda f: any(
    isinstance(x, P.Store) and x.value.op == "var" and x.value.attrs["name"][0] == "t" for l in f.statements[P.For] for b in l.body if isinstance(b, P.If) for x in b.then))
feature("offsets by a histogram")(lambda f: f.ops["histogram"] and any(has(e, "cumsum") for e in f.ops["gather"]))
feature("keys packed with their places")(lambda f: any(e.args[0].type.dtype == "int64" and has(e, "shl") and has(e, "arange") for o in ("sort", "topk") for e in f.ops[o]))
feature("bisection of each element's own")(lambda f: any(has(s.value, "shr") and s.value.args[0].op == "add" for k in (P.For, P.While) for l in f.statements[k] for s in l.body if isinstance(s, P.Assign) and s.value.args))
feature("window that moves over rows")(lambda f: any(
    e.op == "load" and len(e.args) > 1 and e.args[1].op == "ge" and e.args[1].args[0].op == "var" for _, e in in_loops(f)))
feature("groups of rows scaled in three dimensions beside a dot")(lambda f: any(
    e.op == "reshape" and e.args[0].op == "mul" and len(e.args[0].type.shape) == 3 for e in f.ops["reshape"]))
feature("atomic sum of what a dot gave")(lambda f: f.ops["dot"] and any(s.value.op == "atomic" and s.value.attrs["kind"] == "add" and len(s.value.type.shape) == 2 for s in f.statements[P.Effect]))
for _k in ("warp_specialize", "disallow_acc_multi_buffer", "flatten", "loop_unroll_factor"):
    feature(f"loop with {_k}")(lambda f, k=_k: k in hints(f))
feature("several programs")(lambda f: f.grid_size > 1)
feature("cluster")(lambda f: f.p.options.get("num_ctas", 1) > 1)


def of(p):
    """The names of the features that a program has."""
    f = Facts(p)
    f.grid_size = 1
    for n in p.grid:
        f.grid_size *= n
    return {name for name, test in FEATURES.items() if test(f)}


def main():
    from run import seeds
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seeds", type=seeds, required=True, help="A..B, without B")
    o = a.parse_args()
    count = collections.Counter()
    for s in o.seeds:
        count.update(of(generate(s)[0]))
    for name in FEATURES:
        print(f"{100 * count[name] / len(o.seeds):6.1f} %  {name}")


if __name__ == "__main__":
    main()
