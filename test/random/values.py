"""What each operation gives, by numpy: VALUES[op](reference, expression, values of its operands), the value or a list of them (see reference.py)."""
import assembly
import library
import numpy as np
import program as P
from arithmetic import (Undefined, binary, cast, compare, count_rounding, exact_dot, exact_sum, extremum, quiet, refuse, shift)
from idioms import philox
from memory import Pointer, Select, select, spread
from program import NAME, NUMPY


class BlockPointer:
    """Where a block begins: a pointer, offsets, and the attributes of its tensor."""

    def __init__(self, pointer, offsets, attrs):
        self.pointer, self.offsets, self.attrs = pointer, offsets, attrs


def multiple(xs):
    return xs[0] if len(xs) == 1 else xs


VALUES = {}


def means(*names):

    def add(f):
        for n in names:
            VALUES[n] = f
        return f

    return add


@means("const")
def _(r, e, a):
    t = e.attrs["type"]
    with np.errstate(all="ignore"):
        return np.full(t.shape, e.attrs["value"]).astype(NUMPY[t.dtype])


@means("literal")
def _(r, e, a):
    return e.attrs["value"]


@means("arange")
def _(r, e, a):
    return np.arange(e.attrs["start"], e.attrs["end"], dtype=np.int32)


@means("pid", "nprog")
def _(r, e, a):
    return np.asarray((r.pid if e.op == "pid" else r.grid)[e.attrs["axis"]], np.int32)


@means("add", "sub", "mul", "div", "mod", "and", "or", "xor")
def _(r, e, a):
    x, y = literals(a)
    out = binary(e.op, x, y, r.mask, r.exact or e.attrs.get("exact"))
    if e.op == "mul" and not r.rounded and out.dtype not in INTEGERS:
        r.rounded = count_rounding(x, y, out)
    return out


INTEGERS = {NUMPY[n] for n in P.INTS + ("int1", )}


def literals(a):
    """A Python number takes the other operand's type; two types are promoted."""
    x, y = a
    if not isinstance(x, np.ndarray):
        x = x if isinstance(x, np.generic) else np.asarray(x, y.dtype)
    if not isinstance(y, np.ndarray):
        y = y if isinstance(y, np.generic) else np.asarray(y, x.dtype)
    if x.dtype != y.dtype:
        from rules import promote
        t = NUMPY[promote(NAME[x.dtype], NAME[y.dtype])]
        x, y = cast(x, t, None), cast(y, t, None)
    return np.asarray(x), np.asarray(y)


@means("multiple_of")
def _(r, e, a):
    if a[0] % e.attrs["n"]:
        raise Undefined("a hint that is not true")
    return a[0]


@means("max_contiguous")
def _(r, e, a):
    n = min(e.attrs["n"], a[0].size)
    rows = a[0].astype(np.int64).reshape(-1, n)
    if (rows - rows[:, :1] != np.arange(n)).any():
        raise Undefined("a hint that is not true")
    return a[0]


@means("shl", "shr")
def _(r, e, a):
    return shift(e.op, *literals(a))


@means("lt", "le", "gt", "ge", "eq", "ne")
def _(r, e, a):
    return compare(e.op, *literals(a))


@means("cdiv")
def _(r, e, a):
    x, y = literals(a)
    return binary("div", binary("add", x, np.asarray(y - y.dtype.type(1)), r.mask, False), y, r.mask, False)


@means("static")
def _(r, e, a):
    return compare(e.attrs["compare"], np.asarray(e.attrs["a"]), np.asarray(e.attrs["b"]))


@means("exp2")
def _(r, e, a):
    x = a[0]
    ok = ((x == np.trunc(x)) & (np.abs(x) <= 100)) | (x == -np.inf) | np.isnan(x)
    refuse(~ok, r.mask, "a power of two that is rounded")
    return np.exp2(x)


@means("clamp")
def _(r, e, a):
    x, low, high = a[0], *(np.asarray(e.attrs[k]).astype(a[0].dtype) for k in ("low", "high"))
    out = extremum(extremum(x, np.broadcast_to(low, x.shape), False), np.broadcast_to(high, x.shape), True)
    if ((x == 0) & ((low == 0) | (high == 0))).any():
        raise Undefined("either zero")
    return np.where(np.isnan(x), x, out) if e.attrs["nan"] else out


@means("randint")
def _(r, e, a):
    return philox(a[0], a[1])


@means("min", "max")
def _(r, e, a):
    x, y = a
    if e.attrs.get("nan"):
        wide = (x.astype(np.float64), y.astype(np.float64))
        out = extremum(*wide, e.op == "min")
        return np.where(np.isnan(wide[0]) | np.isnan(wide[1]), np.nan, out).astype(x.dtype)
    if NAME[x.dtype] == "bfloat16":
        # numpy's minimum of bfloat16 may warn about NaNs; in float32 it is exact.
        return extremum(x.astype(np.float32), y.astype(np.float32), e.op == "min").astype(x.dtype)
    return extremum(x, y, e.op == "min")


@means("div_rn")
def _(r, e, a):
    return a[0] / a[1]


@means("umulhi")
def _(r, e, a):
    t, n = a[0].dtype, a[0].dtype.itemsize * 8
    u = np.dtype(f"u{n // 8}")
    x, y = (np.asarray(v).astype(u).astype(object) for v in a)
    return np.asarray((x * y) >> n).astype(u).astype(t)


@means("neg")
def _(r, e, a):
    return np.negative(a[0]) if a[0].dtype.kind != "u" else (np.zeros((), a[0].dtype) - a[0])


@means("abs")
def _(r, e, a):
    return np.abs(a[0]).astype(a[0].dtype)


@means("not")
def _(r, e, a):
    return np.invert(a[0])


@means("floor", "ceil", "sqrt_rn")
def _(r, e, a):
    return {"floor": np.floor, "ceil": np.ceil, "sqrt_rn": np.sqrt}[e.op](a[0])


@means("cast")
def _(r, e, a):
    return cast(a[0], NUMPY[e.attrs["to"]], r.mask)


@means("bitcast")
def _(r, e, a):
    x = np.asarray(a[0])
    if NAME[x.dtype] not in P.INTS and np.isnan(x.astype(np.float32)).any():
        raise Undefined("the bits of a NaN")
    return np.ascontiguousarray(x).view(NUMPY[e.attrs["to"]]).reshape(x.shape)


@means("where")
def _(r, e, a):
    if e.type.is_pointer:
        return select(*a)
    x, y = literals(a[1:])
    return np.where(a[0], x, y)


@means("addptr")
def _(r, e, a):
    return a[0].moved(lambda i: i + np.asarray(a[1]).astype(np.int64))


@means("pointer_cast")
def _(r, e, a):
    return Pointer(a[0].argument, a[0].index, e.attrs["to"])


@means("load")
def _(r, e, a):
    if len(a) == 1:
        return r.memory.load(a[0])
    shape = np.broadcast_shapes(a[0].shape, np.shape(a[1]))  # elements may ask for one address, each under its mask
    return r.memory.load(spread(a[0], shape), np.broadcast_to(a[1], shape), a[2])


@means("load_where")
def _(r, e, a):
    shape = np.broadcast_shapes(a[0].shape, np.shape(a[1]))
    return r.memory.load(spread(a[0], shape), np.broadcast_to(a[1], shape), a[2])


@means("block_atomic")
def _(r, e, a):
    p, inside = r.block_address(a[0], e.type.shape, e.attrs, a[1:-1])
    r.memory.atomic(e.attrs["what"], p, a[-1], inside, result=False)
    return a[-1]


@means("block_load")
def _(r, e, a):
    p, inside = r.block_address(a[0], e.type.shape, e.attrs, a[1:])
    return r.memory.load(p, inside, 0)


@means("rows_load", "rows_store")
def _(r, e, a):
    at, rows, columns = e.attrs, a[1].astype(np.int64)[:, None], int(a[2]) + np.arange(e.attrs["block"][-1], dtype=np.int64)
    inside = (rows >= 0) & (rows < at["shape"][0]) & (columns >= 0) & (columns < at["shape"][1])
    p = a[0].at(a[0].index + rows * at["strides"][0] + columns)
    if e.op == "rows_load":
        return r.memory.load(p, inside, 0)
    r.memory.store(p, a[3], inside)
    return a[3]


@means("block_ptr")
def _(r, e, a):
    return BlockPointer(a[0], [int(o) for o in a[1:]], e.attrs)


@means("advance")
def _(r, e, a):
    return BlockPointer(a[0].pointer, [o + int(d) for o, d in zip(a[0].offsets, a[1:])], a[0].attrs)


@means("block_read")
def _(r, e, a):
    p, inside = r.block_address(a[0].pointer, e.type.shape, a[0].attrs, a[0].offsets)
    return r.memory.load(p, inside, 0)


@means("block_write")
def _(r, e, a):
    p, inside = r.block_address(a[0].pointer, e.type.shape, a[0].attrs, a[0].offsets)
    r.memory.store(p, a[1], inside)
    return a[1]


@means("assert")
def _(r, e, a):
    if not (a[0] if len(a) == 1 else a[0] | ~a[1]).all():
        raise Undefined("a condition that is not true")
    return a[0]


@means("asm")
def _(r, e, a):
    return multiple(assembly.meaning(e.attrs["name"], a))


@means("lib")
def _(r, e, a):
    return library.meaning(e.attrs["name"], a)


@means("atomic_load")
def _(r, e, a):
    return r.memory.load(a[0])


@means("atomic_store")
def _(r, e, a):
    r.memory.store(*a)
    return a[1]


@means("slice")
def _(r, e, a):
    rest = iter(a[1:])
    index = tuple(slice(*i) if isinstance(i, tuple) else i if i != "at" else int(next(rest)) % n for i, n in zip(e.attrs["index"], a[0].shape))
    return np.asarray(a[0][index])


@means("atomic")
def _(r, e, a):
    return r.memory.atomic(e.attrs["kind"], *a, result=True)


@means("atomic_old")
def _(r, e, a):
    p, value, mask, other = a
    out = np.full(p.shape, other).astype(value.dtype)
    out[mask] = r.memory.atomic(e.attrs["kind"], p.at(p.index[mask]), np.broadcast_to(value, p.shape)[mask], result=True)
    return out


@means("atomic_sum")
def _(r, e, a):
    p, index = a[0], np.ravel(a[0].index)
    olds = [r.memory.atomic(e.attrs["kind"], p.at(index[k:k + 1]), np.reshape(a[1], 1), result=True) for k in range(index.size)]
    return np.asarray(np.sum(np.concatenate(olds), dtype=a[1].dtype))


@means("expand")
def _(r, e, a):
    if isinstance(a[0], Select):
        raise Undefined("a chosen pointer with another shape")
    if isinstance(a[0], Pointer):
        return a[0].at(np.expand_dims(a[0].index, e.attrs["axis"]))
    return np.expand_dims(a[0], e.attrs["axis"])


@means("broadcast", "splat")
def _(r, e, a):
    if isinstance(a[0], (Pointer, Select)):
        return spread(a[0], e.attrs["shape"])
    return np.broadcast_to(a[0], e.attrs["shape"])


@means("interleave")
def _(r, e, a):
    s = np.stack(a, -1)
    return s.reshape(s.shape[:-2] + (-1, ))


VALUES.update(
    reshape=lambda r, e, a: a[0].reshape(e.attrs["shape"]),
    permute=lambda r, e, a: a[0].transpose(e.attrs["dims"]),
    ravel=lambda r, e, a: a[0].reshape(-1),
    flip=lambda r, e, a: np.flip(a[0], e.attrs["axis"]),
    join=lambda r, e, a: np.stack(a, -1),
    cat=lambda r, e, a: np.concatenate(a, e.attrs["axis"]))


@means("split")
def _(r, e, a):
    return [np.asarray(a[0][..., 0]), np.asarray(a[0][..., 1])]


@means("split_part")
def _(r, e, a):
    return np.asarray(a[0][..., e.attrs["part"]])


@means("gather")
def _(r, e, a):
    n = a[0].shape[e.attrs["axis"]]
    if ((a[1] < 0) | (a[1] >= n)).any():
        raise Undefined("gather out of range")
    return np.take_along_axis(a[0], a[1].astype(np.int64), e.attrs["axis"])


@means("sum")
def _(r, e, a):
    x = a[0]
    axis, keep = e.attrs["axis"], e.attrs["keep"]
    if x.dtype == np.bool_:
        return np.asarray(np.sum(x, axis=axis, keepdims=keep, dtype=np.uint32))
    if x.dtype in INTEGERS:
        t = x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.int32 if x.dtype.kind == "i" else np.uint32)
        return np.asarray(np.sum(x, axis=axis, keepdims=keep, dtype=t))
    return exact_sum(x, axis, keep)


@means("amax", "amin")
def _(r, e, a):
    f = np.fmax if e.op == "amax" else np.fmin
    if a[0].dtype.itemsize < 4:
        a = [a[0].astype(np.int32 if a[0].dtype in INTEGERS else np.float32)]
    out = np.asarray(f.reduce(quiet(a[0]), axis=e.attrs["axis"], keepdims=e.attrs["keep"]))
    if out.dtype.kind == "f" and (out == 0).any() and (np.signbit(a[0]) & (a[0] == 0)).any():
        raise Undefined("either zero may win")
    return out


@means("xor_sum", "reduce_or")
def _(r, e, a):
    f = np.bitwise_xor if e.op == "xor_sum" else np.bitwise_or
    return np.asarray(f.reduce(a[0], axis=e.attrs["axis"], keepdims=e.attrs["keep"]))


@means("argmax", "argmin")
def _(r, e, a):
    return np.asarray((np.argmax if e.op == "argmax" else np.argmin)(a[0], e.attrs["axis"])).astype(np.int32)


@means("max_with", "min_with")
def _(r, e, a):
    x, axis = a[0], e.attrs["axis"]
    if x.dtype not in INTEGERS and np.isnan(x).any():
        raise Undefined("which place a NaN has")
    if x.dtype not in INTEGERS and ((x == 0) & np.signbit(x)).any():
        raise Undefined("either zero")
    i = np.asarray((np.argmax if e.op == "max_with" else np.argmin)(x, axis))
    return [np.asarray(np.take_along_axis(x, np.expand_dims(i, axis), axis).squeeze(axis)), i.astype(np.int32)]


@means("cumsum", "cumprod")
def _(r, e, a):
    axis = e.attrs["axis"]
    x = np.flip(a[0], axis) if e.attrs["reverse"] else a[0]
    if x.dtype not in INTEGERS:
        if e.op == "cumprod":
            raise Undefined("products that are rounded")
        exact_sum(np.abs(x), axis, False)
    y = (np.cumsum if e.op == "cumsum" else np.cumprod)(x, axis, dtype=x.dtype)
    return np.flip(y, axis) if e.attrs["reverse"] else y


@means("sort", "topk")
def _(r, e, a):
    s = np.sort(a[0], -1)
    if e.op == "topk":
        return s[..., ::-1][..., :e.attrs["k"]]
    return s[..., ::-1] if e.attrs["descending"] else s


@means("histogram")
def _(r, e, a):
    n = e.attrs["bins"]
    if ((a[0] < 0) | (a[0] >= n)).any():
        raise Undefined("histogram out of range")
    return np.bincount(a[0].astype(np.int64), minlength=n).astype(np.int32)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@means("dot_scaled")
def _(r, e, a):
    operands = []
    for x, scale, format_, is_scaled, rows in zip(a[0:4:2], a[1:4:2], e.attrs["formats"], e.attrs["scales"], (True, False)):
        v = np.stack([E2M1[x & 15], E2M1[x >> 4]], -1) if format_ == "e2m1" else x.astype(np.float64)
        v = v if format_ != "e2m1" else v.reshape(x.shape[0], -1) if rows else v.transpose(0, 2, 1).reshape(-1, x.shape[1])
        factor = np.repeat(2.0**(scale.astype(np.float64) - 127), 32, 1) if is_scaled else 1.0
        v = v * (factor if rows or not is_scaled else factor.T)
        if not np.isfinite(v).all() or (np.abs(v) > 2.0**15).any() or (np.abs(v[v != 0]) < 2.0**-14).any():
            raise Undefined("dot_scaled of operands that 16 bits might not hold")
        operands.append(v)
    return exact_dot(*operands, a[4] if len(a) > 4 else None, np.dtype(np.float32), 13, 60)


@means("dot")
def _(r, e, a):
    x, y = a[:2]
    acc = a[2] if len(a) > 2 else None
    out = NUMPY[e.type.dtype]
    if x.dtype == np.int8:
        z = np.matmul(x.astype(np.int64), y.astype(np.int64))
        return (z + (0 if acc is None else acc)).astype(np.int32)
    # fp8 is accumulated in fewer bits by some instructions; tf32 keeps 11 bits of the operands.
    width = 13 if x.dtype.itemsize == 1 else {"float16": 11, "float32": 24, "float64": 53}[e.type.dtype]
    limit = 11 if NAME[x.dtype] == "float32" and e.attrs.get("precision") != "ieee" else 60
    return exact_dot(x.astype(np.float64), y.astype(np.float64), acc, out, width, limit)


@means("call")
def _(r, e, a):
    return multiple(r.call(e.attrs["function"], a))


@means("map")
def _(r, e, a):
    return multiple([np.array(o) for o in r.elementwise(e.attrs["function"], a, exact=False)])


@means("reduce")
def _(r, e, a):
    axis = e.attrs["axis"]
    out = r.reduce(e.attrs["function"], a, axis)
    if e.attrs["keep"]:
        out = [np.reshape(o, [1] * a[0].ndim) if axis is None else np.expand_dims(o, axis) for o in out]
    return multiple([np.asarray(o) for o in out])


@means("scan")
def _(r, e, a):
    return multiple(r.scan(e.attrs["function"], a, e.attrs["axis"], e.attrs["reverse"]))
