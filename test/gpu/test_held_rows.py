"""Rows that loops read again stay in shared memory where a launch says how long they are (gpu/loops/HoldRows.h)."""
import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * stride
    top, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-float("inf")).to(tl.float32)
        now = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - now) + tl.sum(tl.exp(v - now), 0)
        top = now
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + tl.program_id(0) * stride + at, tl.exp(v - top) / total, at < n)


@tegula.jit
def layer_norm(x, w, b, out, n, BLOCK: tl.constexpr):
    """Three loops, of which the second and the third have other values where the mask is off."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + at, at < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, 0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=1e30).to(tl.float32)
        v = tl.where(at < n, v - mean, 0.0)
        squares += v * v
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / n + 1e-5)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n).to(tl.float32)
        tl.store(out + tl.program_id(0) * n + at, (v - mean) * scale * tl.load(w + at, at < n) + tl.load(b + at, at < n), at < n)


@tegula.jit
def cross_entropy(x, loss, labels, n, BLOCK: tl.constexpr):
    """The loss, and its gradient in place of the row; a row without a label ends early."""
    if tl.program_id(0) >= 2:
        return
    x += tl.program_id(0) * n
    label = tl.load(labels + tl.program_id(0))
    if label < 0:
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(x + at, 0.0, at < n)
        return
    hit = tl.load(x + label).to(tl.float32)
    top, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, at < n, other=-float("inf")).to(tl.float32)
        now = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - now) + tl.sum(tl.exp(v - now), 0)
        top = now
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        p = tl.exp(tl.load(x + at, at < n, other=-float("inf")).to(tl.float32) - top) / total
        tl.store(x + at, tl.where(at == label, p - 1, p), at < n)
    tl.debug_barrier()
    tl.store(loss + tl.program_id(0), tl.log(total) + top - hit)


def rows(n, dtype):
    x = np.random.default_rng(n).normal(size=(2, n)).astype(dtype)
    return x, np.zeros_like(x)


KIB = 1024


def launched(kernel, *args, **options):
    """Many programs, of which the first two have rows: those of a grid that runs at once hold none. Each in one CTA: test_shared_loops.py has clusters."""
    return kernel[(2000,)](*args, device="sim", **{"clusters": False, **options})


@pytest.mark.parametrize("dtype, n, block, warps, kib", [
    (np.float32, 32768, 4096, 8, 112),             # two blocks: seven of eight iterations
    (np.float32, 32752, 4096, 8, 112),
    (np.float32, 16384, 2048, 8, 72),              # three, with room for one iteration more
    (ml_dtypes.bfloat16, 65536, 8192, 16, 112),
    (np.float32, 65536, 8192, 16, 224),            # one: seven of eight, for less than half in each of two
    (np.float16, 30000, 1024, 4, 54),              # sixteen warps at least
])
def test_values(dtype, n, block, warps, kib):
    """Whatever of a row has no room is loaded twice, as before; and results are those of kernels that hold nothing, to the last bit."""
    x, out = rows(n, dtype)
    k = launched(softmax, x, out, n, n, block, num_warps=warps)
    assert kib * KIB <= k.metadata.shared < (kib + 1) * KIB
    wide = x.astype(np.float64)
    want = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(out.astype(np.float64), want / want.sum(1, keepdims=True), rtol=1e-2 if np.dtype(dtype).itemsize == 2 else 2e-5, atol=1e-7 if dtype == np.float16 else 0)
    loaded = np.zeros_like(x)
    k = launched(softmax, x, loaded, n, n, block, num_warps=warps, maxnreg=128)
    assert k.metadata.shared < 4 * KIB and np.array_equal(out, loaded)


@pytest.mark.parametrize("n", [32768, 30000])
def test_three_loops(n):
    x, out = rows(n, np.float32)
    w, b = (np.random.default_rng(seed).normal(size=n).astype(np.float32) for seed in (1, 2))
    k = launched(layer_norm, x, w, b, out, n, 4096, num_warps=8)
    assert k.metadata.shared > 112 * KIB
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    np.testing.assert_allclose(out, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [32768, 30000])
def test_in_place(n):
    """Each element is stored by the iteration that has read it, so that no other can tell."""
    x, _ = rows(n, np.float32)
    wide, loss = x.astype(np.float64), np.zeros(2, np.float32)
    k = launched(cross_entropy, x, loss, np.array([5, -1]), n, 4096, num_warps=8)
    assert k.metadata.shared > 112 * KIB
    p = np.exp(wide[0] - wide[0].max())
    p /= p.sum()
    assert np.isclose(loss[0], -np.log(p[5]), rtol=1e-5)
    p[5] -= 1
    np.testing.assert_allclose(x, [p, np.zeros(n)], rtol=2e-4, atol=1e-9)


@tegula.jit
def shifted(x, out, n, BLOCK: tl.constexpr):
    """The second loop stores what a later iteration of it reads."""
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        sums += tl.load(x + start + tl.arange(0, BLOCK))
    total = tl.sum(sums, 0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(x + BLOCK + at, tl.load(x + at) + total)


@tegula.jit
def counted(x, out, n, BLOCK: tl.constexpr):
    """Another program may tell by the counter that the row has changed."""
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        sums += tl.load(x + start + tl.arange(0, BLOCK))
    total = tl.sum(sums, 0) + tl.atomic_add(out, 1.0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) + total)


@pytest.mark.parametrize("kernel", [shifted, counted])
def test_what_may_change_is_read_again(kernel):
    n = 32768
    x, out = np.ones(n + 4096, np.float32), np.zeros(n, np.float32)
    assert kernel.warmup(x, out, n, 4096, grid=(1 << 14,), num_warps=8, device="sim").metadata.shared < 4 * KIB
    kernel[(1,)](x, out, n, 4096, num_warps=8, device="sim")
    assert kernel is counted or list(x[::4096]) == [1 + i * n for i in range(9)]


@pytest.mark.parametrize("why, n, stride, dtype", [("short rows are in the caches", 4096, 4096, np.float32), ("nor are long ones held", 1 << 18, 1 << 18, np.float32),
                                                  ("two bytes are less than a copy's least", 32767, 32767, np.float16)])
def test_rows_that_are_loaded_twice(why, n, stride, dtype):
    x, out = rows(n, dtype)
    assert launched(softmax, x, out, stride, n, 1024, num_warps=8).metadata.shared < 4 * KIB, why


def test_few_rows():
    x, out = rows(32768, np.float32)
    assert softmax[(2,)](x, out, 32768, 32768, 4096, num_warps=8, num_stages=2, device="sim").metadata.shared < 4 * KIB
