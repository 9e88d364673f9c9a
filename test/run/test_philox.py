"""§3.9 random numbers, bit for bit against Philox in Python's integers."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
from harness import CompileError, assert_same, d, rng

pytestmark = pytest.mark.section("3.9 random")


def philox(counter, key, rounds, bits):
    m0, m1, w0, w1 = ((0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85) if bits == 32 else
                      (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B))
    top = (1 << bits) - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = (p1 >> bits) ^ c1 ^ k0, p1 & top, (p0 >> bits) ^ c3 ^ k1, p0 & top
        k0, k1 = (k0 + w0) & top, (k1 + w1) & top
    return c0, c1, c2, c3


def words(seed, offsets, rounds=10):
    seed &= (1 << 64) - 1
    key = (seed & 0xffffffff, seed >> 32)
    rows = [philox((o & 0xffffffff, (o >> 32) & 0xffffffff, 0, 0), key, rounds, 32) for o in map(int, offsets)]
    return np.array(rows, np.uint64).astype(np.uint32).T


def uniform(w):
    s = w.view(np.int32)
    return (np.where(s < 0, ~s, s).astype(np.float32) * np.float32(4.6566127342e-10)).astype(np.float32)


def test_reference_has_the_published_vectors():
    # Known answers of Random123 for philox4x32-10.
    assert philox((0, 0, 0, 0), (0, 0), 10, 32) == (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)
    assert philox((0xffffffff,) * 4, (0xffffffff,) * 2, 10, 32) == (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)
    assert philox((0, 0, 0, 0), (0, 0), 10,
                  64) == (0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b)


SEEDS = [0, 1, 42, 0x12345678, 2**31, 2**40 + 5, 2**63 - 1, -1]


@tegula.jit
def randint_kernel(out, seed, N: tl.constexpr, ROUNDS: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    r = tl.randint(seed, i, ROUNDS)
    tl.static_assert(r.dtype == tl.uint32)
    tl.store(out + i, r)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rounds", [10, 7, 1])
@pytest.mark.parametrize("block", [64, 16])
def test_randint(dev, seed, rounds, block):
    out = np.zeros(128, np.uint32)
    dev(randint_kernel, (128 // block,), out, seed, block, rounds)
    assert_same(out, words(seed, range(128), rounds)[0])


@tegula.jit
def randint4x_kernel(out, seed, start, N: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c, e = tl.randint4x(seed, i.to(T) + start)
    tl.store(out + i, a)
    tl.store(out + N + i, b)
    tl.store(out + 2 * N + i, c)
    tl.store(out + 3 * N + i, e)


@pytest.mark.parametrize("seed", SEEDS[:4])
@pytest.mark.parametrize("t, start", [("int32", 0), ("int32", 1000), ("int64", 5), ("int64", 2**32),
                                      ("int64", 2**45 + 3), ("uint32", 2**31), ("uint32", 3)])
def test_randint4x(dev, seed, t, start):
    n = 64
    out = np.zeros(4 * n, np.uint32)
    dev(randint4x_kernel, (1,), out, seed, start, n, d(t).tl)
    assert_same(out.reshape(4, n), words(seed, range(start, start + n)))


@tegula.jit
def rand_kernel(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    u = tl.rand(seed, i)
    tl.static_assert(u.dtype == tl.float32)
    tl.store(out + i, u)
    a, b, c, e = tl.rand4x(seed, i)
    tl.store(out + N + i, a)
    tl.store(out + 2 * N + i, b)
    tl.store(out + 3 * N + i, c)
    tl.store(out + 4 * N + i, e)


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_rand(dev, seed):
    n = 256
    out = np.zeros(5 * n, np.float32)
    dev(rand_kernel, (1,), out, seed, n)
    w = words(seed, range(n))
    assert_same(out.reshape(5, n), uniform(np.concatenate([w[:1], w])))
    assert out.min() >= 0 and out.max() < 1


@tegula.jit
def randn_kernel(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.randn(seed, i))
    a, b, c, e = tl.randn4x(seed, i)
    tl.store(out + N + i, a)
    tl.store(out + 2 * N + i, b)
    tl.store(out + 3 * N + i, c)
    tl.store(out + 4 * N + i, e)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_randn(dev, seed):
    n = 4096
    out = np.zeros(5 * n, np.float32)
    dev(randn_kernel, (1,), out, seed, n)
    u = uniform(words(seed, range(n))).astype(np.float64)

    def normals(u1, u2):
        r, a = np.sqrt(-2 * np.log(np.maximum(u1, 1e-7))), 6.283185307179586 * u2
        return [r * np.cos(a), r * np.sin(a)]

    n01, n23 = normals(u[0], u[1]), normals(u[2], u[3])
    e = np.stack([n01[0]] + n01 + n23)
    np.testing.assert_allclose(out.reshape(5, n), e, rtol=1e-4, atol=3e-6)
    assert abs(out.mean()) < 0.05 and abs(out.std() - 1) < 0.05


@tegula.jit
def philox_kernel(out, c, k, N: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, N)
    a, b, e, f = tl.philox_impl(tl.load(c + i), tl.load(c + N + i), tl.load(c + 2 * N + i), tl.load(c + 3 * N + i),
                                tl.load(k + i), tl.load(k + N + i))
    tl.store(out + i, a)
    tl.store(out + N + i, b)
    tl.store(out + 2 * N + i, e)
    tl.store(out + 3 * N + i, f)


@pytest.mark.parametrize("t", ["uint32", "uint64"])
def test_philox_impl(dev, t):
    n, dt = 32, d(t)
    g = rng("philox", t)
    c, k = (g.integers(0, np.iinfo(dt.np).max, (rows, n), dtype=dt.np, endpoint=True) for rows in (4, 2))
    out = np.zeros((4, n), dt.np)
    dev(philox_kernel, (1,), out.reshape(-1), c.reshape(-1), k.reshape(-1), n, t == "uint64")
    e = [philox([int(v) for v in c[:, i]], [int(v) for v in k[:, i]], 10, dt.bits) for i in range(n)]
    assert_same(out, np.array(e, dt.np).T)


@tegula.jit
def uniform_of_words(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.random.uint_to_uniform_float(tl.load(x + i)))


@pytest.mark.parametrize("t, scale", [("uint32", 4.6566127342e-10), ("int32", 4.6566127342e-10),
                                      ("uint64", 1.0842020432385337e-19), ("int64", 1.0842020432385337e-19)])
def test_uniform_of_words(dev, t, scale):
    dt = d(t)
    x = rng("u", t).integers(0, 2**63 - 1, 256).astype(np.uint64).astype(f"u{dt.bits // 8}").view(dt.np)
    x[:4] = np.array([0, -1, 2**(dt.bits - 1) - 1, -2**(dt.bits - 1)], f"i{dt.bits // 8}").view(dt.np)
    out = np.zeros(256, np.float32)
    dev(uniform_of_words, (1,), x, out, 256)
    s = x.view(f"i{dt.bits // 8}")
    assert_same(out, np.where(s < 0, ~s, s).astype(np.float32) * np.float32(scale))
    assert out.min() >= 0 and out.max() <= 1


@tegula.jit
def scalar_kernel(out, seed):
    tl.store(out, tl.randint(seed, 7))
    tl.store(out + 1, tl.randint(seed, tl.program_id(0)))
    tl.store(out + 2, tl.randint(5, 7))


def test_scalars(dev):
    out = np.zeros(3, np.uint32)
    dev(scalar_kernel, (1,), out, 9)
    assert_same(out, np.array([words(9, [7])[0][0], words(9, [0])[0][0], words(5, [7])[0][0]], np.uint32))


@tegula.jit
def two_dims(out, seed, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.randint(seed, i))


def test_two_dimensions(dev):
    out = np.zeros(128, np.uint32)
    dev(two_dims, (1,), out, 3, 8, 16)
    assert_same(out, words(3, range(128))[0])


@tegula.jit
def e_seed(out):
    tl.store(out, tl.randint(1.5, 0))


def test_float_seed(dev):
    with pytest.raises(CompileError, match="integer"):
        dev(e_seed, (1,), np.zeros(1, np.uint32))
