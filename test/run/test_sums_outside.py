"""§3.5 dot whose result is added, scaled or shifted outside of it, in drawn tiles, warps, stages and element types: a thread's sums may be several tiles of an instruction, several parts, or less than
one. (256x64 by four warps in fp8 was wrong when parts were taken to be an instruction's tiles each; no other case had that shape.) All numbers are exact."""
import random

import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import d, rng

pytestmark = pytest.mark.section("3.5 dot")

# What is added in an iteration: in the kernel by name, here of the products `p`, the sum `s`, scales of rows and columns, and a number.
FORMS = {
    "added": lambda s, p, u, v, x: s + p,
    "operand": lambda s, p, u, v, x: s + p,
    "chunks": lambda s, p, u, v, x: s + p,
    "subtracted": lambda s, p, u, v, x: s - p,
    "shifted": lambda s, p, u, v, x: s + (p + 1) * 2,
    "halved": lambda s, p, u, v, x: s * 0.5 + p,
    "number": lambda s, p, u, v, x: s + p * x,
    "rows": lambda s, p, u, v, x: s + p * u[:, None],
    "columns": lambda s, p, u, v, x: s + p * v[None, :],
    "both": lambda s, p, u, v, x: s + p * u[:, None] * v[None, :],
}
WHOLE = ("added", "operand", "subtracted", "shifted")  # of integers, too


@tegula.jit
def sums(a, b, su, sv, out, x, K, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, SUM: tl.constexpr, FORM: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), SUM)
    for i in tl.range(0, K // BK, num_stages=STAGES):
        y = tl.load(a + m[:, None] * K + (i * BK + k)[None, :])
        z = tl.load(b + (i * BK + k)[:, None] * bk + n[None, :] * bn)
        u, v = tl.load(su + i * BM + m), tl.load(sv + i * BN + n)
        if FORM == "operand":
            acc = tl.dot(y, z, acc, out_dtype=SUM)
        elif FORM == "chunks":
            acc = tl.dot(y, z, acc, max_num_imprecise_acc=32)
        elif FORM == "subtracted":
            acc -= tl.dot(y, z, out_dtype=SUM)
        elif FORM == "shifted":
            acc += (tl.dot(y, z, out_dtype=SUM) + 1) * 2
        elif FORM == "halved":
            acc = acc * 0.5 + tl.dot(y, z)
        elif FORM == "number":
            acc += tl.dot(y, z) * x
        elif FORM == "rows":
            acc += tl.dot(y, z) * u[:, None]
        elif FORM == "columns":
            acc += tl.dot(y, z) * v[None, :]
        elif FORM == "both":
            acc += tl.dot(y, z) * u[:, None] * v[None, :]
        else:
            acc += tl.dot(y, z, out_dtype=SUM)
    tl.store(out + m[:, None] * BN + n[None, :], acc)


def drawn(seed):
    r = random.Random(seed)
    t = r.choice(["float8e4nv", "float8e5", "int8", "float16"])
    tile = r.choice([(64, 64), (128, 64), (256, 64), (512, 32), (256, 32), (64, 256), (128, 128), (128, 256), (256, 128)])
    return t, r.choice(WHOLE if t == "int8" else list(FORMS)), tile, r.choice([32, 64, 128]), r.choice([4, 4, 4, 8]), r.choice([1, 2, 3]), r.random() < 0.5


@pytest.mark.parametrize("seed", range(60))
def test_sums_outside(dev, seed):
    t, form, (bm, bn), bk, warps, stages, by_columns = drawn(seed)
    g, groups = rng("sums", seed), 4
    a, b = (g.integers(-4, 5, (rows, groups * bk)).astype(d(t).np) for rows in (bm, bn))
    u, v = ((g.integers(1, 4, (groups, rows)) / 2).astype(np.float32) for rows in (bm, bn))
    expected = np.zeros((bm, bn))
    for i in range(groups):
        y, z = (o[:, i * bk:(i + 1) * bk].astype(np.float64) for o in (a, b))
        expected = FORMS[form](expected, y @ z.T, u[i], v[i], 0.25)
    out = np.zeros((bm, bn), np.int32 if t == "int8" else np.float32)
    lies, strides = (b, (1, groups * bk)) if by_columns else (np.ascontiguousarray(b.T), (bn, 1))
    dev(sums, (1, ), a, lies, u, v, out, 0.25, groups * bk, *strides, BM=bm, BN=bn, BK=bk, STAGES=stages, SUM=tl.int32 if t == "int8" else tl.float32, FORM=form, num_warps=warps)
    assert np.array_equal(out, expected), (t, form, bm, bn, bk, warps, stages, by_columns)
