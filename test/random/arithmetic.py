"""Scalar operations of the language on numpy arrays, each with the conditions under which it has one right result."""
import numpy as np
from program import FP8, NAME, NUMPY

MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
LARGEST = {"float8e5": 57344.0, "float8e4nv": 448.0}


class Undefined(Exception):
    """The program has no one right result. node: the expression or statement to blame; statement: the one it is in;
    barrier: a barrier in front of the statement would make it right."""

    def __init__(self, text, node=None, barrier=False):
        super().__init__(text)
        self.node, self.statement, self.barrier = node, None, barrier


def refuse(bad, mask, text):
    if mask is not None:
        bad = bad & mask
    if np.any(bad):
        raise Undefined(text)


def bits_of(a):
    """Bit patterns in which all NaNs are one."""
    a = np.ascontiguousarray(a)
    if a.dtype == np.bool_:
        return a.view(np.uint8)
    u = a.view(f"u{a.dtype.itemsize}").copy()
    if a.dtype.kind not in "biu":
        u[np.isnan(a.astype(np.float64))] = np.iinfo(u.dtype).max
    return u


def narrow(f, x, y):
    """16-bit floats: in float32, rounded once (exact for + - *)."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        return f(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    return f(x, y)


def binary(op, x, y, mask, exact):
    integer = x.dtype.kind in "biu"
    if op in ("add", "sub", "mul"):
        out = np.asarray(narrow({"add": np.add, "sub": np.subtract, "mul": np.multiply}[op], x, y))
        if exact and not integer:
            refuse(~is_exact(op, x, y, out), mask, "rounded where the order of operations is open")
        return out
    if op in ("div", "mod"):
        t = x.dtype
        bad = y == 0
        if t.kind == "i":
            bad = bad | ((x == np.iinfo(t).min) & (y == -1))
        refuse(bad, mask, "division")
        y = np.where(bad, t.type(1), y)
        if op == "mod":
            return np.asarray(np.fmod(x, y)).astype(t)
        q = x // y
        return np.where((q < 0) & (q * y != x), q + t.type(1), q).astype(t) if t.kind == "i" else np.asarray(q)
    return np.asarray({"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op](x, y))


def is_exact(op, x, y, out):
    """Whether a float operation did not round. Infinities and NaNs count as exact."""
    x, y, o = (np.asarray(v).astype(np.float64) for v in (x, y, out))
    special = ~np.isfinite(x) | ~np.isfinite(y)
    if op == "mul":
        p = x * y
        return special | ((p == o) & ((out.dtype != np.float64) | (np.abs(p) <= 2.0**53) & (p == np.floor(p))))
    if op == "sub":
        y = -y
    s = x + y
    b = s - x
    return special | ((s == o) & ((x - (s - b)) + (y - b) == 0))


def count_rounding(x, y, out):
    return not is_exact("mul", x, y, out).all()


def shift(op, x, y):
    """Amounts count as unsigned; by the width and more nothing is left but the sign."""
    n = x.dtype.itemsize * 8
    far = (y < 0) | (y >= n)
    if op == "shl":
        return np.where(far, x.dtype.type(0), np.left_shift(x, np.where(far, x.dtype.type(0), y)))
    return np.right_shift(np.where(far & (x.dtype.kind == "u"), x.dtype.type(0), x), np.where(far, x.dtype.type(n - 1), y))


def compare(op, x, y):
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        x, y = x.astype(np.float32), y.astype(np.float32)
    f = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal
    }[op]
    return np.asarray(f(x, y))


def quiet(x):
    """x with one quiet NaN for all NaNs. The language tells no NaN from another, but fmax of C, which numpy calls for some
    elements of an array, gives a NaN for a signaling one."""
    return x if x.dtype.kind in "biu" else np.where(x != x, x.dtype.type(np.nan), x)


def extremum(a, b, smaller):
    """minNum, maxNum of IEEE with -0 < +0."""
    r = np.asarray((np.fmin if smaller else np.fmax)(quiet(a), quiet(b)))
    if a.dtype.kind not in "iu":
        zero = (a == 0) & (b == 0)
        sign = (np.signbit(a) | np.signbit(b)) if smaller else (np.signbit(a) & np.signbit(b))
        r = np.where(zero, np.where(sign, -0.0, 0.0).astype(a.dtype), r)
    return r


def cast(x, t, mask):
    x = np.asarray(x)
    if x.dtype == t:
        return x
    src, dst = NAME[x.dtype], NAME[t]
    integer = x.dtype.kind in "biu"
    if dst == "int1":
        return np.asarray((x if integer else x.astype(np.float64)) != 0)
    if t.kind in "iu" and dst not in FP8 and dst not in MANTISSA:
        return x.astype(t) if integer else to_integer(x, t, mask)
    if dst in ("float32", "float64"):
        return x.astype(t)
    # A narrow float: by float32, which must not round first.
    if integer or src == "float64":
        f = x.astype(np.float32)
        if src != "float64":
            refuse(np.abs(x.astype(np.float64)) > 2**24, mask, "rounded twice")
        else:
            refuse((f.astype(np.float64) != x) & ~np.isnan(x), mask, "rounded twice")
    else:
        f = x.astype(np.float32)
    if dst in FP8:
        # Saturates; infinities too.
        f = np.clip(f, -LARGEST[dst], LARGEST[dst])
    return f.astype(t)


def to_integer(x, t, mask):
    """Towards zero; saturates and takes NaN to 0 (docs/differences.md) for 32 and 64 bits, else out of range is
    undefined."""
    w = x.astype(np.float64)
    info = np.iinfo(t)
    inside = (w > float(info.min) - 1) & (w < float(info.max) +
                                          1) if t.itemsize < 8 else (w >= float(info.min)) & (w < float(info.max))
    if t.itemsize < 4:
        refuse(~inside, mask, "conversion out of range")
    r = np.where(w > 0, t.type(info.max), t.type(info.min))
    r = np.where(np.isnan(w), t.type(0), r)
    return np.where(inside, np.trunc(np.where(inside, w, 0)).astype(t), r).astype(t)


def granularity(x):
    """The largest power of two that divides every element of finite float64s (1.0 for zeros)."""
    x = np.asarray(x)[np.asarray(x) != 0]
    if x.size == 0:
        return 1.0
    m, e = np.frexp(x)
    k = (np.abs(m) * 2.0**53).astype(np.int64)
    return float(np.ldexp((k & -k).astype(np.float64), e - 53).min())


def exact_sum(x, axis, keep):
    """The sum if it is exact in any order."""
    w = x.astype(np.float64)
    if not np.isfinite(w).all():
        raise Undefined("sum of infinities")
    with np.errstate(all="ignore"):
        total = np.abs(w).sum(axis=axis, keepdims=keep)
    if np.any(total > granularity(w) * 2.0**MANTISSA[NAME[x.dtype]]):
        raise Undefined("a sum that depends on the order")
    s = np.asarray(w.sum(axis=axis, keepdims=keep))
    if (s == 0).any() and (np.signbit(w) & (w == 0)).any():
        raise Undefined("either zero")
    return s.astype(NUMPY[NAME[x.dtype]])


def exact_dot(x, y, acc, out, width, limit):
    """x @ y + acc as `out`, if accumulators of `width` bits and operands of `limit` bits give it in any order."""
    with np.errstate(all="ignore"):
        total = np.matmul(np.abs(x), np.abs(y)) + (0 if acc is None else np.abs(acc.astype(np.float64)))
    if not np.isfinite(total).all():
        raise Undefined("dot of infinities")
    unit = granularity(x) * granularity(y)
    if acc is not None:
        unit = min(unit, granularity(acc.astype(np.float64)))
    if limit == 11 and min(granularity(x), granularity(y)) < 2.0**-136:
        raise Undefined("dot of what tf32 cannot tell from zero")  # its subnormals end there
    if (total > unit * 2.0**width).any() or any(np.abs(v).max() > granularity(v) * 2.0**limit for v in (x, y)):
        raise Undefined("dot is not exact")
    z = np.matmul(x, y)
    return ((z if acc is None else z + acc.astype(np.float64)) + 0.0).astype(out)
