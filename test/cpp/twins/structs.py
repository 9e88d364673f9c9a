"""The kernels of structs.hpp in the language's own syntax: aggregates, tuples, helpers."""
import triton
import triton.language as tl
from triton.language import core


@core._aggregate
class Moments:
    mean: tl.tensor
    m2: tl.tensor
    count: tl.tensor


@triton.jit
def _merge(mean, m2, count, other_mean, other_m2, other_count):
    n = count + other_count
    d = other_mean - mean
    safe = tl.where(n > 0, n, 1.0)
    return mean + d * other_count / safe, m2 + other_m2 + d * d * count * other_count / safe, n


@triton.jit
def variance(x, mean, var, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    all = Moments(tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32))
    for start in tl.range(0, columns, BLOCK, warp_specialize="never"):
        i = start + tl.arange(0, BLOCK)
        mask = i < columns
        v = tl.load(x + row * columns + i, mask=mask, other=0.0)
        a, b, c = _merge(all.mean, all.m2, all.count, v, tl.zeros([BLOCK], tl.float32), mask.to(tl.float32))
        all = Moments(a, b, c)
    m, m2, count = tl.reduce((all.mean, all.m2, all.count), 0, _merge)
    tl.store(mean + row, m)
    tl.store(var + row, m2 / count)


@triton.jit
def _larger(key, a, b, other_key, other_a, other_b):
    return tl.where(key >= other_key, key, other_key), tl.where(key >= other_key, a, other_a), tl.where(key >= other_key, b, other_b)


@triton.jit
def suffix_max(x, key, a, b, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    k, s, t = tl.associative_scan((v, i, v * 2.0), 0, _larger, reverse=True)
    tl.store(key + i, k)
    tl.store(a + i, s)
    tl.store(b + i, t)


@triton.jit
def gcd(x, y, out):
    p = tl.program_id(0)
    a = tl.load(x + p)
    b = tl.load(y + p)
    while b != 0:
        a, b = b, a % b
    if a < 0:
        r = -a
    else:
        r = a
    tl.store(out + p, r)


@triton.jit
def _extremes(lo, hi, other_lo, other_hi):
    return tl.minimum(lo, other_lo), tl.maximum(hi, other_hi)


@triton.jit
def _three(s, hi, lo, other_s, other_hi, other_lo):
    return s + other_s, tl.maximum(hi, other_hi), tl.minimum(lo, other_lo)


@triton.jit
def _two(s, q, other_s, other_q):
    return s + other_s, q + other_q


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def several(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    lo, hi = tl.reduce((v, v), 0, _extremes)
    total, high, low = tl.reduce((v, v, v), 0, _three)
    s, q = tl.reduce((v, v * v), 0, _two)
    one = tl.reduce(v, None, _add)
    most, at = tl.max(v, 0, return_indices=True)
    tl.store(out, lo)
    tl.store(out + 1, hi)
    tl.store(out + 2, total)
    tl.store(out + 3, high - low)
    tl.store(out + 4, s)
    tl.store(out + 5, q)
    tl.store(out + 6, one)
    tl.store(out + 7, most + at)


@triton.jit
def _order(a, b):
    lo = a
    hi = b
    if a > b:
        lo = b
        hi = a
    return lo, hi


@triton.jit
def order(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    lo, hi = tl.map_elementwise(_order, tl.load(x + i), tl.load(y + i))
    tl.store(out + i, hi - lo)


@triton.jit
def clipped(x, h, out, n, limit, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    count = 0
    for block in tl.range(tl.program_id(0), n, tl.num_programs(0), num_stages=2):
        v = tl.load(x + block * BLOCK + i) * 0.5 + tl.load(h + block * BLOCK + i).to(tl.float32) * 2.0
        total += v
        top = tl.max(v, 0)
        while top > limit:
            count += 1
            top = top * 0.5
        if count > 3:
            total = total * 0.5
            count = 0
    tl.store(out + tl.program_id(0) * BLOCK + i, total + count)


@triton.jit
def first_above(x, out, n, rows, limit):
    row = tl.program_id(0)
    if row >= rows:
        return
    at = -1
    skipped = 0
    for i in tl.range(n):
        v = tl.load(x + row * n + i)
        if v < 0:
            skipped += 1
            continue
        if v > limit:
            at = i.to(tl.int32)
            break
    tl.store(out + row * 2, at)
    tl.store(out + row * 2 + 1, skipped)
