"""§7: the least obvious behaviours that real kernels rely on, by their number there. Those of the host side alone (11,
13, 14, 25) and of other sections' tests are in python/tests and next to their rows."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, rng, run

pytestmark = pytest.mark.section("7 surprises")


@tegula.jit
def h_constexpr(x: tl.constexpr, y):
    z: tl.constexpr = y  # stays a compile-time value: it was one at the call
    return x + z


@tegula.jit
def k01(out, n):
    tl.store(out, h_constexpr(n, 4))
    tl.store(out + 1, h_constexpr(tl.program_id(0), 5))


def test_01_annotations_of_helpers_do_not_bind(dev):
    assert run(dev, k01, 7)[:2] == [11, 5]


@tegula.jit
def k02(out, stride):
    if stride == 1:
        tl.store(out, 100)
    else:
        tl.store(out, stride * 2)


@tegula.jit
def k02_attribute(out, n):
    tl.store(out, n.to(tl.int32))


@tegula.jit(do_not_specialize=["n"])
def k02_unspecialized(out, n):
    tl.store(out, n.to(tl.int32))


def test_02_ones_are_constants(dev):
    assert run(dev, k02, 1)[0] == 100
    assert run(dev, k02, 3)[0] == 6
    assert run(dev, k02_attribute, 3)[0] == 3
    with pytest.raises(CompileError, match="to"):
        run(dev, k02_attribute, 1)
    assert run(dev, k02_unspecialized, 1)[0] == 1


@tegula.jit
def k03(out, N: tl.constexpr):
    t = (N, N)
    tl.store(out + tl.arange(0, (N, 2)[0]), 1)
    m = N
    tl.store(out + m, 2)


def test_03_decay(dev):
    assert run(dev, k03, 4) == [1, 1, 1, 1, 2, 0, 0, 0]


@tegula.jit
def h_tail(x, FLAG: tl.constexpr):
    if FLAG:
        return x + 1
    return x + 2


@tegula.jit
def h_bad_tail(x, FLAG: tl.constexpr):
    if FLAG:
        return x + 1
    return x + 2.5


@tegula.jit
def k04(out, n, P):
    tl.store(out, h_tail(n, True))
    if hasattr(P, "dtype") and P.dtype == tl.float32:
        tl.store(out + 1, 1)
    if P is None or P.whatever:
        tl.store(out + 2, 1)


@tegula.jit
def k04_bad(out, n):
    tl.store(out, h_bad_tail(n, True))


def test_04_pruning(dev):
    assert run(dev, k04, 7, None)[:3] == [8, 0, 1]
    # A taken `if ...: return` does not hide the tail.
    with pytest.raises(CompileError, match="[Rr]eturn type"):
        run(dev, k04_bad, 7)


@tegula.jit
def k05(out, a, b):
    tl.store(out, a // b)
    tl.store(out + 1, a % b)
    tl.store(out + 2, -7 // 2)
    tl.store(out + 3, -7 % 2)
    tl.store(out + 4, tl.cdiv(a, b))
    tl.store(out + 5, tl.cdiv(-7, 2))


def test_05_division(dev):
    assert run(dev, k05, -7, 2)[:6] == [-3, -1, -4, 1, -3, -3]


@tegula.jit
def k06(out, h, b, i):
    tl.static_assert((i / i).dtype == tl.float32)
    tl.static_assert((b + i).dtype == tl.float32)
    tl.static_assert((h / h).dtype == tl.float32)
    tl.static_assert(tl.maximum(h, 0.0).dtype == tl.float16)
    tl.static_assert(tl.where(i > 0, h, 0.0).dtype == tl.float16)
    v = tl.zeros([4], tl.int8)
    tl.static_assert(tl.max(v, 0).dtype == tl.int32)
    tl.static_assert(tl.sum(v.to(tl.float16), 0).dtype == tl.float16)
    tl.static_assert(tl.max(v.to(tl.float16), 0).dtype == tl.float32)
    tl.static_assert(tl.topk(v, 2).dtype == tl.int32)
    tl.static_assert(tl.topk(v, 4).dtype == tl.int8)
    tl.store(out, 1)


@tegula.jit
def k06_outer(out, n):
    k06(out, tl.full([4], 1.0, tl.float16), tl.full([4], 1.0, tl.bfloat16), tl.full([4], 1, tl.int64))


def test_06_promotion(dev):
    assert run(dev, k06_outer, 3)[0] == 1


@tegula.jit
def k07(out, x):
    v = tl.load(x + tl.arange(0, 8))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(out + 2, tl.argmax(v, 0))
    tl.store(out + 3, tl.argmin(v, 0))


def test_07_nan_is_ignored(dev):
    x = np.array([np.nan, 3, np.nan, 9, -4, np.nan, 9, np.nan], np.float32)
    assert run(dev, k07, x, dtype=np.float32)[:4] == [9, -4, 3, 4]


@tegula.jit
def k08(out, x, n):
    i = tl.arange(0, 8)
    v = tl.load(x + i * 1000003, mask=i < 1, other=float("-inf"))
    tl.static_assert(v.dtype == tl.float16)
    tl.store(out + i, v)
    table = tl.load(x.to(tl.int64).to(tl.pointer_type(tl.float16)))
    tl.store(out + 7, table)


def test_08_masked_loads(dev):
    inf = float("-inf")
    assert run(dev, k08, np.array([2, 3], np.float16), 5, dtype=np.float32) == [2, inf, inf, inf, inf, inf, inf, 2]


@tegula.jit
def k09(out, x):
    v = tl.load(x + tl.arange(0, 8))
    tl.static_assert(v.dtype == tl.int1)
    tl.store(out, tl.sum(v))
    tl.store(out + 1, tl.sum(v.to(tl.int32)))
    tl.store(out + 2, (v + v).to(tl.int32).sum())


def test_09_bool(dev):
    x = np.array([1, 1, 1, 0, 1, 1, 0, 1], np.bool_)
    assert run(dev, k09, x)[:3] == [6, 6, 0]


@tegula.jit
def k10(out, num_stages: tl.constexpr, num_warps: tl.constexpr):
    s = 0
    for i in tl.range(0, 10, num_stages=num_stages):
        s += i
    tl.store(out, s * 10 + num_warps)


def test_10_parameters_named_like_options(dev):
    assert run(dev, k10, num_stages=3, num_warps=4)[0] == 454


@tegula.jit
def k12(out, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.max_contiguous(tl.multiple_of(i % n, B), B)
    tl.multiple_of(i, 8)
    tl.max_constancy(i, 1)
    tl.assume(n > 0)
    tl.store(out + i, tl.load(x + j))


def test_12_hints(dev):
    x = np.arange(32, dtype=np.int32)
    assert run(dev, k12, x, 32, 16, n=64, grid=(4,)) == (np.arange(64) % 32).tolist()


@tegula.jit
def k15(out, x):
    v = tl.load(x + tl.arange(0, 8))
    tl.static_assert(v.shape == [8])
    tl.static_assert(v.shape[:-1] + [2] == [2])
    w = tl.reshape(v, [1] * 2 + [8])
    tl.static_assert(w.shape == (1, 1, 8))
    tl.store(out, tl.sum(w))


def test_15_lists_are_tuples(dev):
    assert run(dev, k15, np.arange(8, dtype=np.int32))[0] == 28


@tegula.jit
def k16(out, lock, N: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    v = tl.load(out + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), v + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("programs", [1, 64, 500])
def test_16_spin_lock(dev, programs):
    lock = np.zeros(1, np.int32)
    assert run(dev, k16, lock, 8, grid=(programs,)) == [programs] * 8
    assert lock[0] == 0


@tegula.jit
def k17(out, table, n):
    for g in range(n):
        p = tl.load(table + g).to(tl.pointer_type(tl.float16))
        v = tl.load(p + tl.arange(0, 4))
        tl.store(out + g, tl.sum(v.to(tl.float32)).to(out.dtype.element_ty))


def test_17_pointer_tables(dev):
    if dev.name != "cpu":
        pytest.skip("addresses of host arrays")
    xs = [np.arange(4).astype(np.float16) + 10 * i for i in range(3)]
    table = np.array([x.ctypes.data for x in xs], np.int64)
    assert run(dev, k17, table, 3)[:3] == [6, 46, 86]


@tegula.jit
def k18(out, n, PROGRAMS: tl.constexpr, K: tl.constexpr):
    pid = tl.program_id(0)
    acc = tl.zeros([4], tl.int32)
    tile = pid
    for t in tl.range(pid * K, n * K, flatten=True):
        k = t % K
        if k == 0:
            tile = t // K
        acc += tile * 10 + k
        if k == K - 1:
            if tile % PROGRAMS == pid:
                tl.store(out + tile, tl.sum(acc))
            acc = tl.zeros([4], tl.int32)


def test_18_persistent_loop(dev):
    e = [4 * sum(tile * 10 + k for k in range(5)) for tile in range(8)]
    assert run(dev, k18, 8, 2, 5, grid=(2,)) == e


@tegula.jit
def k19(out, n):
    acc = tl.zeros([4], tl.float32)
    for i in range(n):
        acc += tl.full([4], 1.5, tl.float16)
    tl.store(out + tl.arange(0, 4), acc)


@tegula.jit
def k19_bad(out, n):
    acc = tl.zeros([4], tl.float16)
    for i in range(n):
        acc += tl.full([4], 1.5, tl.float32)
    tl.store(out + tl.arange(0, 4), acc)


def test_19_types_before_the_loop(dev):
    assert run(dev, k19, 4, dtype=np.float32)[:4] == [6] * 4
    with pytest.raises(CompileError, match="acc"):
        run(dev, k19_bad, 4, dtype=np.float32)


@tegula.jit
def k20(out, x):
    i = tl.arange(0, 16)
    a = tl.load(x + i[:, None] * 16 + i[None, :], mask=i[None, :] < 3, other=0)
    r = tl.dot(a, tl.trans(a))
    tl.static_assert(r.dtype == tl.int32)
    tl.store(out + i[:, None] * 16 + i[None, :], tl.dot(a, tl.trans(a), acc=r, allow_tf32=None))


def test_20_dot(dev):
    x = rng("20").integers(-100, 100, (16, 16)).astype(np.int8)
    a = x.astype(np.int32) * (np.arange(16) < 3)
    assert run(dev, k20, x.reshape(-1), n=256) == (2 * a @ a.T).ravel().tolist()


@tegula.jit
def k22(out, seed, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.rand(seed, i))


def test_22_random_numbers_do_not_depend_on_the_grid(dev):
    whole = run(dev, k22, 11, 1024, n=1024, dtype=np.float32)
    assert whole == run(dev, k22, 11, 16, n=1024, dtype=np.float32, grid=(64,))


@tegula.jit
def k23(out, x, big, i):
    pid = tl.program_id(0)
    far = (pid + 70000) * 70000
    wide = (pid.to(tl.int64) + 70000) * 70000
    tl.store(out, (wide >> 32).to(tl.int32))
    tl.store(out + 1, far)
    tl.store(out + 2, (big >> 20).to(tl.int32))
    u = tl.full([1], 200, tl.uint8)
    tl.store(out + 3, tl.sum(tl.load(x + u)))
    tl.store(out + 4, tl.load(x + (i - i + 7)))


def test_23_addresses(dev):
    x = np.arange(256, dtype=np.int32)
    wrapped = np.array(70000 * 70000, np.int64).astype(np.int32)
    assert run(dev, k23, x, 2**40, 5)[:5] == [4900000000 >> 32, int(wrapped), 2**20, 200, 7]


@tegula.jit
def h_relu(x):
    return tl.where(x > 0, x, 0.0)


@tegula.jit
def h_double(x):
    return x * 2


@tegula.jit
def k24(out, x, EPILOGUE: tl.constexpr):
    v = tl.load(x + tl.arange(0, 8))
    if EPILOGUE is not None:
        v = EPILOGUE(v)
    tl.store(out + tl.arange(0, 8), v)


@pytest.mark.parametrize("fn, ref", [(None, lambda x: x), (h_relu, lambda x: np.maximum(x, 0)),
                                     (h_double, lambda x: 2 * x)], ids=["none", "relu", "double"])
def test_24_functions_as_arguments(dev, fn, ref):
    x = np.arange(8, dtype=np.float32) - 3
    assert run(dev, k24, x, fn, dtype=np.float32) == ref(x).tolist()


@tegula.jit
def h_return_pointer(p, n):
    return p + n


@tegula.jit
def k26(out, x, n):
    # Further candidates: pointers moved in place, negative constant steps, unused values of void.
    x += 2
    x = h_return_pointer(x, 1)
    for i in range(7, -1, -1):
        tl.store(out + i, tl.load(x) + i)
        x += 1


def test_26_moving_pointers(dev):
    x = np.arange(32, dtype=np.int32) * 100
    assert run(dev, k26, x, 3) == [(3 + 7 - i) * 100 + i for i in range(8)]


@tegula.jit
def k_scalar_ops(out, a, f):
    tl.store(out, a * f)
    tl.store(out + 1, tl.exp(f) - f)
    tl.store(out + 2, tl.where(a > 2, f, 0.0))


def test_27_floats_are_float32(dev):
    f = 0.1
    r = run(dev, k_scalar_ops, 3, f, dtype=np.float64)
    assert r[0] == float(np.float32(3) * np.float32(f))
    assert r[2] == float(np.float32(f))


@tegula.jit
def k_zero_grid(out):
    tl.store(out, 1)


@pytest.mark.parametrize("grid", [(0,), (4, 0), (0, 3, 2)])
def test_28_empty_grid(dev, grid):
    assert run(dev, k_zero_grid, grid=grid)[0] == 0


def test_29_grid_callable_sees_every_argument(dev):
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (tegula.cdiv(64, meta["N"]),)

    out = np.zeros(64, np.float32)
    dev(k22, grid, out, 11, N=16)
    assert seen["N"] == 16 and seen["seed"] == 11 and out.max() > 0


@tegula.jit
def k_far_shifts(out, n):
    i = tl.arange(0, 2)
    v = tl.where(i < 1, 1, 3).to(tl.int64)
    tl.store(out + i, v << tl.where(i < 1, 65, 64).to(tl.int64))
    tl.store(out + 2 + i, v << 70)
    tl.store(out + 4 + i, v << (64 + (n >> 8)).to(tl.int64))
    tl.store(out + 6 + i, v << (i * 63).to(tl.int64))


def test_30_shifts_of_64_bits_by_more(dev):
    """Assemblers of GPU code have taken constant amounts modulo 64."""
    assert run(dev, k_far_shifts, 5, dtype=np.int64)[:8] == [0, 0, 0, 0, 0, 0, 1, -1 << 63]
