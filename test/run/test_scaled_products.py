"""§3.5 dot whose result is scaled, or shifted, by rows that are loaded in the same iteration before it is added: quantized products by blocks, in the spellings that occur. Loops long enough
that every slot of the rings is used again. All numbers are exact."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import assert_same, rng

pytestmark = pytest.mark.section("3.5 dot")


@tegula.jit
def scaled(a, b, sa, sb, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    # a [M, K], b [N, K]; scales [M, K/BK] and [N, K/BK], by "columns" [K/BK, M] and [K/BK, N].
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    groups = K // BK
    pa, pb = a + m[:, None] * K + k[None, :], b + n[None, :] * K + k[:, None]
    qa, qb = sa + m * groups, sb + n * groups
    if HOW == "descriptors":
        da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(groups):
        if HOW == "descriptors":
            x, y = da.load([tl.program_id(0) * BM, i * BK]), db.load([tl.program_id(1) * BN, i * BK]).T
        else:
            x, y = tl.load(pa), tl.load(pb)
        if HOW == "masked":
            u, v = tl.load(qa + i, mask=m < M - 3, other=0.0), tl.load(qb + i, mask=n < N - 5, other=0.0)
            acc += tl.dot(x, y).to(tl.float32) * u[:, None] * v[None, :]
        elif HOW == "ones":
            u, v = tl.load(qa + i, mask=m < M - 3, other=1.0), tl.load(qb + i)
            acc += tl.dot(x, y).to(tl.float32) * (u[:, None] * v[None, :])
        elif HOW == "tiles":
            u, v = tl.load((qa + i)[:, None]), tl.load((qb + i)[None, :])
            acc += tl.dot(x, y).to(tl.float32) * u * v
        elif HOW == "columns":
            u, v = tl.load(sa + i * M + m), tl.load(sb + i * N + n)
            acc += tl.dot(x, y).to(tl.float32) * u[:, None].to(tl.float32) * v[None, :].to(tl.float32)
        elif HOW == "twice":
            # The row is used in another layout, too, and carried.
            u, v = tl.load(qa + i), tl.load(qb + i)
            acc = acc + tl.dot(x, y).to(tl.float32) * u[:, None] * v[None, :] + tl.sum(u) - v[None, :]
        else:
            u, v = tl.load(qa), tl.load(qb)
            acc += tl.dot(x, y).to(tl.float32) * u[:, None].to(tl.float32) * v[None, :].to(tl.float32)
            qa += 1
            qb += 1
        pa += BK
        pb += BK
    tl.store(out + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("t, s, tile, warps, stages, how", [
    (ml_dtypes.float8_e4m3fn, np.float32, (64, 64, 128), 4, 3, "carried"), (ml_dtypes.float8_e4m3fn, np.float32, (64, 32, 64), 4, 4, "masked"),
    (np.int8, np.float32, (64, 64, 64), 4, 3, "tiles"), (np.int8, np.float32, (128, 32, 32), 8, 2, "carried"),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16, (64, 128, 32), 4, 3, "columns"), (ml_dtypes.bfloat16, np.float16, (64, 64, 32), 4, 3, "carried"),
    (np.float16, np.float32, (64, 64, 32), 4, 3, "descriptors"), (np.float16, np.float32, (64, 64, 32), 4, 3, "ones"), (np.float16, np.float32, (16, 64, 32), 4, 3, "twice"),
    (np.float16, np.float32, (16, 32, 32), 2, 3, "columns"), (np.float16, np.float32, (64, 64, 32), 4, 3, "twice"),
], ids=lambda v: "x".join(map(str, v)) if isinstance(v, tuple) else getattr(v, "__name__", str(v)))
def test_scaled_products(dev, t, s, tile, warps, stages, how):
    bm, bn, bk = tile
    m, n, groups = 2 * bm, bn, 6
    g = rng(f"{tile}{how}")
    a, b = g.integers(-3, 4, (m, groups * bk)).astype(t), g.integers(-3, 4, (n, groups * bk)).astype(t)
    sa, sb = g.choice(np.array([0.5, 1, 2, -1], np.float32), (m, groups)), g.choice(np.array([0.25, 1, 2], np.float32), (n, groups))
    out = np.zeros((m, n), np.float32)
    turned = (lambda x: np.ascontiguousarray(x.T)) if how == "columns" else (lambda x: x)
    dev(scaled, (2, 1), a, b, turned(sa).astype(s), turned(sb).astype(s), out, m, n, groups * bk, *tile, how, num_warps=warps, num_stages=stages)
    if how == "masked":
        sa[m - 3:], sb[n - 5:] = 0, 0
    if how == "ones":
        sa[m - 3:] = 1
    want = np.zeros((m, n), np.float32)
    for i in range(groups):
        part = a[:, i * bk:(i + 1) * bk].astype(np.float32) @ b[:, i * bk:(i + 1) * bk].astype(np.float32).T
        want += part * sa[:, i:i + 1] * sb[:, i:i + 1].T
        if how == "twice":
            want += np.repeat([[sa[j * bm:(j + 1) * bm, i].sum()] for j in range(2)], bm, axis=0) - sb[:, i:i + 1].T
    assert_same(out, want)
