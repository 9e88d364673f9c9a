"""The rules of typing, one for each operation: RULES[op](operand types, attributes) -> type, or a tuple of types where
the operation has several results. Operands that do not fit raise Invalid. check.py types whole programs."""
import functools

import numpy as np
import library
from assembly import ASSEMBLY
from program import E, FLOATS, FP8, INTS, MAX_NUMEL, NUMPY, SIGNED, UNSIGNED, Type, bits

RULES = {}
ARITHMETIC = ("add", "sub", "mul", "div", "mod")
BITWISE = ("and", "or", "xor")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
FUNCTION_OPS = ("reduce", "scan", "map", "call")
# Blocks of memory: descriptors made by the kernel, those that the launch gets ("host"), block pointers.
DESCRIPTORS = ("descriptor", "host")
BLOCKS = DESCRIPTORS + ("pointer", )


class Invalid(Exception):
    pass


def need(ok, text=""):
    if not ok:
        raise Invalid(text)


def rule(*names):

    def add(f):
        for n in names:
            RULES[n] = f
        return f

    return add


def make(op, *args, **attrs):
    return E(op, args, attrs, RULES[op]([a.type for a in args], attrs))


def power(n):
    return n > 0 and n & (n - 1) == 0


def tile(dtype, shape):
    return _tile(dtype, tuple(shape))


@functools.lru_cache(4096)
def _tile(dtype, shape):
    need(all(d > 0 for d in shape) and len(shape) <= 5)
    t = Type(dtype, tuple(int(d) for d in shape))
    need(Type(dtype, tuple(1 << (d - 1).bit_length() for d in t.shape)).numel <= MAX_NUMEL, "too large")
    return t


def broadcast(*shapes):
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise Invalid("shapes do not broadcast") from None


def promote(a, b):
    """The dtype of an operation on two run-time values (docs/language.md, binary promotion), for what is generated."""
    if a == b:
        return a
    need(a not in FP8 + ("int1", ) and b not in FP8 + ("int1", ) and a[0] != "*" and b[0] != "*", "promotion")
    for f in ("float64", "float32", "float16"):
        if f in (a, b):
            return f
    if "bfloat16" in (a, b):
        return "float32"
    if (a in SIGNED) == (b in SIGNED):
        return a if bits(a) >= bits(b) else b
    u, s = (a, b) if a in UNSIGNED else (b, a)
    return u if bits(u) >= bits(s) else s


def literal_fits(t, lit, value):
    if lit == "literal float":
        need(t in ("float32", "float16", "float64", "bfloat16"))
        return t
    need(t in INTS + FLOATS, "literal")
    if t in INTS:
        info = np.iinfo(NUMPY[t])
        need(info.min <= value <= info.max, "literal out of range")
    return t


def pair(ts, attrs):
    """dtype and shape of a binary operation; one operand may be a literal (its value in attrs["literal"])."""
    a, b = ts
    la, lb = a.dtype.startswith("literal"), b.dtype.startswith("literal")
    need(not (la and lb))
    if la or lb:
        t, lit = (b, a) if la else (a, b)
        return literal_fits(t.dtype, lit.dtype, attrs.get("value", 0)), t.shape
    return promote(a.dtype, b.dtype), broadcast(a.shape, b.shape)


def converts(a, b):
    """Does a store convert from a to b by itself, to one result?"""
    if b in FP8:
        return a in ("float32", "float16", "bfloat16")
    return a in INTS + FLOATS and b in INTS + FLOATS


# Leaves


@rule("var", "const")
def _(ts, at):
    return at["type"]


@rule("literal")
def _(ts, at):
    return Type("literal float" if isinstance(at["value"], float) else "literal int")


@rule("arange")
def _(ts, at):
    need(at["end"] > at["start"])
    return tile("int32", (at["end"] - at["start"], ))


@rule("pid", "nprog")
def _(ts, at):
    return Type("int32")


# Element-wise


@rule(*ARITHMETIC)
def _(ts, at, op=None):
    d, s = pair(ts, at)
    need(d != "int1" and d not in FP8)
    return tile(d, s)


@rule("div", "mod")
def _(ts, at):
    d, s = pair(ts, at)
    need(d in INTS)
    need(all(t.dtype.startswith("literal") or (t.dtype in SIGNED) == (d in SIGNED) for t in ts))
    return tile(d, s)


@rule(*BITWISE)
def _(ts, at):
    d, s = pair(ts, at)
    need(d in INTS + ("int1", ))
    return tile(d, s)


@rule("shl", "shr")
def _(ts, at):
    d, s = pair(ts, at)
    need(d in INTS and not ts[0].dtype.startswith("literal"))
    return tile(d, s)


@rule(*COMPARE)
def _(ts, at):
    d, s = pair(ts, at)
    need(d not in FP8 and d != "int1")
    return tile("int1", s)


@rule("min", "max")
def _(ts, at):
    """nan: a NaN in either operand is the result."""
    a, b = ts
    need(a.dtype == b.dtype and a.dtype in INTS + FLOATS and (not at.get("nan") or a.dtype in FLOATS))
    return tile(a.dtype, broadcast(a.shape, b.shape))


@rule("clamp")
def _(ts, at):
    need(ts[0].dtype in ("float16", "float32", "float64") and at["low"] <= at["high"])
    return ts[0]


@rule("exp2")
def _(ts, at):
    """Of whole numbers and the infinities, where every device gives the same."""
    need(ts[0].dtype == "float32")
    return ts[0]


@rule("randint")
def _(ts, at):
    need(ts[0].dtype == "literal int" and ts[1].dtype == "int32" and ts[1].shape)
    return Type("uint32", ts[1].shape)


@rule("static")
def _(ts, at):
    """A comparison of numbers that are known when the kernel is compiled."""
    return Type("int1")


@rule("cdiv")
def _(ts, at):
    need(ts[1].dtype == "literal int" and at["value"] > 0)
    return RULES["div"](ts, at)


@rule("div_rn")
def _(ts, at):
    need(all(t.dtype == "float32" for t in ts))
    return tile("float32", broadcast(*(t.shape for t in ts)))


@rule("umulhi")
def _(ts, at):
    need(ts[0].dtype == ts[1].dtype and ts[0].dtype in ("int32", "uint32", "int64", "uint64"))
    return tile(ts[0].dtype, broadcast(*(t.shape for t in ts)))


@rule("neg", "abs")
def _(ts, at):
    need(ts[0].dtype in INTS + FLOATS)
    return ts[0]


@rule("not")
def _(ts, at):
    need(ts[0].dtype in INTS + ("int1", ))
    return ts[0]


@rule("floor", "ceil", "sqrt_rn")
def _(ts, at):
    need(ts[0].dtype == "float32")
    return ts[0]


@rule("cast")
def _(ts, at):
    need(ts[0].dtype in NUMPY and at["to"] in NUMPY)
    return Type(at["to"], ts[0].shape)


@rule("multiple_of")
def _(ts, at):
    need(ts[0].dtype in INTS and power(at["n"]) and ts[0].shape == ())
    return ts[0]


@rule("max_contiguous")
def _(ts, at):
    need(ts[0].dtype in INTS and power(at["n"]) and len(ts[0].shape) == 1)
    return ts[0]


@rule("bitcast")
def _(ts, at):
    a, b = ts[0].dtype, at["to"]
    need(a in NUMPY and b in NUMPY and bits(a) == bits(b) and "int1" not in (a, b))
    return Type(b, ts[0].shape)


@rule("where")
def _(ts, at):
    c, x, y = ts
    need(c.dtype == "int1")
    if x.dtype[0] == "*":
        need(x.dtype == y.dtype)
        return tile(x.dtype, broadcast(c.shape, x.shape, y.shape))
    if x.dtype == y.dtype == "int1" or (x.dtype in FP8 and x.dtype == y.dtype):
        return tile(x.dtype, broadcast(c.shape, x.shape, y.shape))
    d, s = pair([x, y], at)
    return tile(d, broadcast(c.shape, s))


@rule("ternary")
def _(ts, at):
    need(ts[0] == Type("int1") and ts[1] == ts[2])
    return ts[1]


# Pointers and memory


@rule("addptr")
def _(ts, at):
    need(ts[0].is_pointer and ts[1].dtype in ("int32", "int64"))
    return tile(ts[0].dtype, broadcast(ts[0].shape, ts[1].shape))


@rule("pointer_cast")
def _(ts, at):
    """A pointer argument of the kernel as one to other elements."""
    need(ts[0].is_pointer and ts[0].shape == () and at["to"] in NUMPY)
    return Type("*" + at["to"])


@rule("load")
def _(ts, at):
    need(ts[0].is_pointer)
    d, s = ts[0].dtype[1:], ts[0].shape
    if len(ts) > 1:
        need(ts[1].dtype == "int1")
        need(broadcast(s, ts[1].shape) == s and len(ts) == 3)
        need(ts[2].dtype.startswith("literal") or (ts[2].dtype == d and broadcast(s, ts[2].shape) == s))
        if ts[2].dtype.startswith("literal"):
            need(d in INTS + FLOATS)
    return Type(d, s)


@rule("load_where")
def _(ts, at):
    """A load under a mask, and a number where the mask is off. Operands: pointer, mask, the number."""
    need(ts[0].is_pointer and ts[1] == Type("int1", ts[0].shape) and ts[0].shape)
    d = ts[0].dtype[1:]
    need(d in INTS + FLOATS and literal_fits(d, ts[2].dtype, at.get("value", 0)) == d)
    return Type(d, ts[0].shape)


@rule("block_atomic")
def _(ts, at):
    """Through a descriptor. Operands: the base pointer, one int32 offset for each dimension, the value. what: add, min, max, and, or, xor."""
    d, value = ts[0].dtype[1:], ts[-1]
    need(ts[0].is_pointer and ts[0].shape == () and all(t == Type("int32") for t in ts[1:-1]) and at["kind"] == "descriptor")
    block_rules(d, at, len(ts) - 2)
    need(value == tile(d, at["block"]))
    need(d in {"add": ("int32", "uint32", "uint64", "float32"), "min": ("int32", "uint32", "int64", "uint64"), "max": ("int32", "uint32", "int64", "uint64")}.get(
        at["what"], ("int32", "uint32", "int64", "uint64")))
    return value


@rule("block_load")
def _(ts, at):
    """Operands: the base pointer, then one int32 offset for each dimension."""
    need(ts[0].is_pointer and ts[0].shape == () and all(t == Type("int32") for t in ts[1:]))
    need(at["kind"] in BLOCKS)
    block_rules(ts[0].dtype[1:], at, len(ts) - 1)
    return tile(ts[0].dtype[1:], at["block"])


def block_rules(d, at, rank):
    need(len(at["block"]) == len(at["shape"]) == len(at["strides"]) == rank and rank >= 1 and d in INTS + FLOATS + FP8)
    if at["kind"] in DESCRIPTORS:
        size = NUMPY[d].itemsize
        need(at["strides"][-1] == 1 and at["block"][-1] * size >= 16
             and all(s * size % 16 == 0 for s in at["strides"][:-1]))
        need(all(n <= 256 and power(n) for n in at["block"]))


@rule("rows_load", "rows_store")
def _(ts, at):
    """Rows by index through a descriptor of blocks of one row. Operands: the base pointer, indices of rows, the first column; of a store its value."""
    rows, column = ts[1:3]
    d, n = ts[0].dtype[1:], at["block"][-1]
    need(ts[0].is_pointer and ts[0].shape == () and rows.dtype == column.dtype == "int32" and column.shape == ())
    need(at["kind"] in DESCRIPTORS and at["block"][:-1] == (1, ) and len(rows.shape) == 1 and 8 <= rows.numel <= 256 and power(rows.numel))
    block_rules(d, at, 2)
    need(n * NUMPY[d].itemsize >= 32)
    t = tile(d, (rows.numel, n))
    need(len(ts) == 3 or ts[3] == t)
    return t


@rule("block_ptr")
def _(ts, at):
    need(ts[0].is_pointer and ts[0].shape == () and all(t == Type("int32") for t in ts[1:]))
    block_rules(ts[0].dtype[1:], dict(at, kind="pointer"), len(ts) - 1)
    return tile("&" + ts[0].dtype[1:], at["block"])


@rule("advance")
def _(ts, at):
    need(ts[0].dtype[0] == "&" and len(ts) == 1 + len(ts[0].shape) and all(t == Type("int32") for t in ts[1:]))
    return ts[0]


@rule("block_read")
def _(ts, at):
    need(ts[0].dtype[0] == "&")
    return Type(ts[0].dtype[1:], ts[0].shape)


@rule("block_write")
def _(ts, at):
    need(ts[0].dtype[0] == "&" and ts[1] == Type(ts[0].dtype[1:], ts[0].shape))
    return ts[1]


@rule("atomic_load", "atomic_store")
def _(ts, at):
    """Operands of the store: pointer, value, perhaps a mask."""
    t = Type(ts[0].dtype[1:], ts[0].shape)
    need(ts[0].dtype[0] == "*" and t.dtype in INTS + FLOATS and all(x == t for x in ts[1:2]))
    need(all(x == Type("int1", t.shape) for x in ts[2:]))
    return t


@rule("assume")
def _(ts, at):
    need(ts[0] == Type("int1"))
    return ts[0]


@rule("atomic")
def _(ts, at):
    """kind: add, max, min, and, or, xor, xchg; or cas (pointer, cmp, value). The old values."""
    d = ts[0].dtype[1:]
    s = ts[0].shape
    need(ts[0].is_pointer and all(t.dtype == d for t in ts[1:3 if at["kind"] == "cas" else 2]))
    need(all(broadcast(s, t.shape) == s for t in ts[1:]))
    ok = ("int32", "uint32", "int64", "uint64") + (("float32", "float64", "float16") if at["kind"] in ("add", ) else ())
    need(d in ok)
    if at["kind"] != "cas" and len(ts) > 2:
        need(ts[2].dtype == "int1")
    if at["kind"] == "cas":
        need(all(t.shape == s for t in ts))
    return Type(d, s)


@rule("atomic_old")
def _(ts, at):
    """The old values, and a number where the mask is off. Operands: pointer, value, mask, the number."""
    t = RULES["atomic"](ts[:3], at)
    need(ts[2] == Type("int1", t.shape) and t.shape and literal_fits(t.dtype, ts[3].dtype, at.get("value", 0)))
    return t


@rule("atomic_sum")
def _(ts, at):
    """The sum of all old values, where every element adds (or xors) one scalar: elements that meet have them in any order."""
    need(at["kind"] in ("add", "xor") and ts[0].shape and ts[1].shape == ())
    return Type(RULES["atomic"](ts, at).dtype)


# Shapes


@rule("reshape")
def _(ts, at):
    n = 1
    for d in at["shape"]:
        n *= d
    need(n == ts[0].numel and len(at["shape"]) >= 1 and ts[0].shape)
    return tile(ts[0].dtype, at["shape"])


@rule("permute")
def _(ts, at):
    need(sorted(at["dims"]) == list(range(len(ts[0].shape))) and len(at["dims"]) >= 2)
    return Type(ts[0].dtype, tuple(ts[0].shape[i] for i in at["dims"]))


@rule("expand")
def _(ts, at):
    s = list(ts[0].shape)
    need(0 <= at["axis"] <= len(s) and s)
    s.insert(at["axis"], 1)
    return tile(ts[0].dtype, s)


@rule("broadcast")
def _(ts, at):
    s = ts[0].shape
    need(s == () or (len(s) == len(at["shape"]) and broadcast(s, at["shape"]) == tuple(at["shape"])))
    return tile(ts[0].dtype, at["shape"])


@rule("splat")
def _(ts, at):
    need(ts[0].shape == () and at["shape"])
    return tile(ts[0].dtype, at["shape"])


@rule("ravel")
def _(ts, at):
    need(ts[0].shape)
    return Type(ts[0].dtype, (ts[0].numel, ))


@rule("flip")
def _(ts, at):
    need(at["axis"] < len(ts[0].shape) and ts[0].dtype[0] != "*")
    return ts[0]


@rule("join")
def _(ts, at):
    need(ts[0] == ts[1])
    return tile(ts[0].dtype, ts[0].shape + (2, ))


@rule("interleave")
def _(ts, at):
    need(ts[0] == ts[1])
    s = ts[0].shape
    return tile(ts[0].dtype, s[:-1] + (s[-1] * 2, ) if s else (2, ))


@rule("cat")
def _(ts, at):
    need(ts[0] == ts[1] and at["axis"] < len(ts[0].shape))
    s = list(ts[0].shape)
    s[at["axis"]] *= 2
    return tile(ts[0].dtype, s)


@rule("split")
def _(ts, at):
    need(ts[0].shape and ts[0].shape[-1] == 2)
    t = Type(ts[0].dtype, ts[0].shape[:-1])
    return (t, t)


@rule("split_part")
def _(ts, at):
    return RULES["split"](ts, at)[at["part"]]


@rule("gather")
def _(ts, at):
    a, i = ts
    ax = at["axis"]
    need(i.dtype in ("int32", "int64", "int16") and a.dtype in NUMPY and len(a.shape) == len(i.shape)
         and ax < len(a.shape))
    need(all(m == n for k, (m, n) in enumerate(zip(a.shape, i.shape)) if k != ax))
    return Type(a.dtype, i.shape)


@rule("slice")
def _(ts, at):
    """Operands: the block, then the positions that are known at run time. index: for each axis a slice (start, stop, step), a number,
    or "at" for the next of the operands."""
    need(len(at["index"]) == len(ts[0].shape) >= 1 and ts[0].dtype in NUMPY and all(t == Type("int32") for t in ts[1:]))
    need(sum(i == "at" for i in at["index"]) == len(ts) - 1)
    shape = []
    for i, n in zip(at["index"], ts[0].shape):
        if isinstance(i, tuple):
            shape.append(len(range(n)[slice(*i)]))
        else:
            need(i == "at" or -n <= i < n)
    return tile(ts[0].dtype, shape)


# Reductions, scans


def reduced(shape, axis, keep):
    if axis is None:
        return tuple(1 for _ in shape) if keep else ()
    need(0 <= axis < len(shape))
    return shape[:axis] + ((1, ) if keep else ()) + shape[axis + 1:]


@rule("sum")
def _(ts, at):
    d = ts[0].dtype
    need(d in INTS + FLOATS + ("int1", ) and ts[0].shape)
    if d == "int1":
        d = "uint32"
    elif d in INTS and bits(d) < 32:
        d = "int32" if d in SIGNED else "uint32"
    return Type(d, reduced(ts[0].shape, at["axis"], at["keep"]))


@rule("amax", "amin")
def _(ts, at):
    d = ts[0].dtype
    need(d in INTS + FLOATS and ts[0].shape)
    if bits(d) < 32:
        d = "float32" if d in FLOATS else "int32"
    return Type(d, reduced(ts[0].shape, at["axis"], at["keep"]))


@rule("max_with", "min_with")
def _(ts, at):
    """The values along an axis and the places of the first of them."""
    need(ts[0].dtype in ("int32", "int64", "uint32", "uint64", "float16", "float32", "float64") and ts[0].shape)
    s = reduced(ts[0].shape, at["axis"], False)
    return Type(ts[0].dtype, s), Type("int32", s)


@rule("xor_sum", "reduce_or")
def _(ts, at):
    need(ts[0].dtype in INTS and ts[0].shape)
    return Type(ts[0].dtype, reduced(ts[0].shape, at["axis"], at["keep"]))


@rule("argmax", "argmin")
def _(ts, at):
    need(ts[0].dtype in ("int32", "int64", "uint32", "uint64") and ts[0].shape and at["axis"] is not None)
    return Type("int32", reduced(ts[0].shape, at["axis"], False))


@rule("cumsum", "cumprod")
def _(ts, at):
    need(ts[0].dtype in ("int32", "int64", "uint32", "uint64", "float32", "float64") and at["axis"] < len(ts[0].shape))
    return ts[0]


@rule("sort")
def _(ts, at):
    need(ts[0].dtype in INTS and ts[0].shape and ts[0].shape[-1] <= 64 and power(ts[0].shape[-1]))
    return ts[0]


@rule("topk")
def _(ts, at):
    need(ts[0].dtype in ("int32", "uint32", "int64") and ts[0].shape and 1 <= at["k"] < ts[0].shape[-1] <= 64)
    need(power(ts[0].shape[-1]) and power(at["k"]))
    return Type(ts[0].dtype, ts[0].shape[:-1] + (at["k"], ))


@rule("histogram")
def _(ts, at):
    need(ts[0].dtype in ("int32", "uint32") and len(ts[0].shape) == 1 and power(at["bins"]))
    return Type("int32", (at["bins"], ))


@rule("dot")
def _(ts, at):
    a, b = ts[:2]
    need(len(a.shape) == len(b.shape) and len(a.shape) in (2, 3) and a.shape[:-2] == b.shape[:-2])
    need(a.shape[-1] == b.shape[-2])
    k = a.shape[-1]
    if a.dtype in FP8:
        need(b.dtype in FP8)
    else:
        need(a.dtype == b.dtype and a.dtype in ("int8", "float16", "bfloat16", "float32", "float64"))
    need(k >= 32 // NUMPY[a.dtype].itemsize)
    d = at.get("out") or ("int32" if a.dtype == "int8" else "float64" if a.dtype == "float64" else "float32")
    need(at.get("out") in (None, "float32") or (at["out"] == "float16" and (a.dtype == "float16" or a.dtype in FP8)))
    need(not at.get("out") or a.dtype in ("float16", ) + FP8)
    t = tile(d, a.shape[:-1] + b.shape[-1:])
    need(len(ts) == 2 or ts[2] == t)
    need(a.numel * b.shape[-1] <= 1 << 20, "too large")
    return t


@rule("dot_scaled")
def _(ts, at):
    """lhs, its scales, rhs, its scales; of a format that has none scales are the operand before it once more. formats: of both."""
    need(len(ts) in (4, 5))
    (m, ka), (kb, n) = ts[0].shape, ts[2].shape
    k = ka * packed(at["formats"][0])
    need(k == kb * packed(at["formats"][1]) and k % 32 == 0 and k <= 128)
    for t, s, f, rows, has_scales in zip(ts[0:4:2], ts[1:4:2], at["formats"], (m, n), at["scales"]):
        need(t.dtype == SCALED[f] and (not has_scales or s == Type("uint8", (rows, k // 32))))
    t = tile("float32", (m, n))
    need(len(ts) == 4 or ts[4] == t)
    return t


SCALED = {"e2m1": "uint8", "e4m3": "float8e4nv", "e5m2": "float8e5", "bf16": "bfloat16", "fp16": "float16"}


def packed(format_):
    return 2 if format_ == "e2m1" else 1


# Functions: the types of their results come from retype(); here the recorded ones.


@rule("call")
def _(ts, at):
    return at["types"] if len(at["types"]) > 1 else at["types"][0]


@rule("reduce")
def _(ts, at):
    need(all(t.shape == ts[0].shape for t in ts) and ts[0].shape)
    out = tuple(Type(t.dtype, reduced(t.shape, at["axis"], at["keep"])) for t in ts)
    return out if len(out) > 1 else out[0]


@rule("scan")
def _(ts, at):
    need(all(t.shape == ts[0].shape for t in ts) and at["axis"] < len(ts[0].shape))
    return tuple(ts) if len(ts) > 1 else ts[0]


@rule("asm")
def _(ts, at):
    _, _, inputs, results, pack, _ = ASSEMBLY[at["name"]]
    need(tuple(t.dtype for t in ts) == inputs)
    shape = broadcast(*(t.shape for t in ts))
    need(pack == 1 or (all(map(power, shape)) and tile("int1", shape).numel >= pack))
    out = tuple(tile(r, shape) for r in results)
    return out if len(out) > 1 else out[0]


@rule("lib")
def _(ts, at):
    """A function of libdevice, of library.TABLE."""
    row = library.TABLE[at["name"]]
    need(tuple(t.dtype for t in ts) == row.inputs)
    return tile(row.result, broadcast(*(t.shape for t in ts)))


@rule("assert")
def _(ts, at):
    """A condition, perhaps a mask."""
    need(all(t.dtype == "int1" for t in ts) and broadcast(*(t.shape for t in ts)) == ts[0].shape)
    return ts[0]


@rule("map")
def _(ts, at):
    """Scalar pointers among the operands are the same for all elements."""
    shape = broadcast(*(t.shape for t in ts))
    need(all(t.dtype in NUMPY or t.is_pointer and t.shape == () for t in ts) and not ts[0].is_pointer)
    out = tuple(tile(t.dtype, shape) for t in at["types"])
    return out if len(out) > 1 else out[0]
