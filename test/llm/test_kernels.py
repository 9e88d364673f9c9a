"""Each kernel of examples/llm beside a plain reference in float64, at small shapes that do not divide the tiles, on cpu and on the simulated GPU."""
import attention as attention_kernels
import elementwise
import matmul as matmul_kernels
import ml_dtypes
import moe
import norms
import numpy as np
import pytest
import quantized
import sampling
import tegula

BF16 = ml_dtypes.bfloat16
FP8 = ml_dtypes.float8_e4m3fn


def rng():
    return np.random.default_rng(1)


def normal(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def close(got, want, bound):
    error = np.abs(got.astype(np.float64) - want).max()
    assert error <= bound, f"off by {error}"


@pytest.mark.parametrize("add", [0, 1, 3])
@pytest.mark.parametrize("dtype,bound", [(np.float32, 2e-6), (BF16, 0.02)])
def test_rms_norm(dev, add, dtype, bound):
    x, delta, w = normal(3, 72), normal(3, 300, dtype=dtype, seed=2), normal(72, dtype=dtype, seed=3)
    out = np.empty((3, 72), dtype)
    summed = x.astype(np.float64) + delta[:add, :216].astype(np.float64).reshape(-1, 3, 72).sum(0)
    want = summed / np.sqrt((summed**2).mean(1, keepdims=True) + 1e-5) * w.astype(np.float64)
    before = x.copy()
    dev(norms.rms_norm, (3,), x, delta, w, out, 72, 300, 1e-5, ADD=add, BLOCK=128)
    close(out, want, bound)
    close(x, summed, 1e-6) if add else np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("block,whole", [(128, True), (128, False), (16, False), (64, False)])
@pytest.mark.parametrize("mean", [3, 300])
def test_layer_norm(dev, add, block, whole, mean):
    """Of rows in registers and in parts, the last of which is not full; a mean beside which the variance is small."""
    x, delta, w, b = mean + normal(3, 72), normal(3, 72, seed=2), normal(72, seed=3), normal(72, seed=4)
    out = np.empty((3, 72), np.float32)
    v = x.astype(np.float64) + (delta if add else 0)
    want = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * w + b
    dev(norms.layer_norm, (3,), x, delta, w, b, out, 72, 0, 1e-5, ADD=int(add), BLOCK=block, WHOLE=whole)
    close(out, want, 2e-6 * mean)


def test_embedding_and_gather(dev):
    table, tokens, chosen = normal(11, 40, dtype=BF16), np.array([3, 10, 0], np.int32), np.array([5, 10], np.int32)
    out = np.empty((3, 40), np.float32)
    rounded = np.zeros((3, 40), BF16)
    for both in (False, True):
        given = np.array([3, -2, 0], np.int32) if both else tokens  # -2: chosen[1]
        dev(elementwise.embedding, (3, 2), given, chosen, table, out, rounded, 40, ROUNDED=both, BLOCK=32)
        np.testing.assert_array_equal(out, table[tokens].astype(np.float32))
        np.testing.assert_array_equal(rounded, table[tokens] if both else np.zeros((3, 40), BF16))
    picked, parts = np.empty((2, 40), np.float32), normal(2, 160, seed=2)
    for add in (0, 1, 2):
        dev(norms.gather_rows, (2, 2), np.array([2, 0], np.int32), out, parts, picked, 40, 160, ADD=add, BLOCK=32)
        want = out[[2, 0]]
        for part in parts[:add]:
            want = want + part[:120].reshape(3, 40)[[2, 0]]
        np.testing.assert_array_equal(picked, want)


class Cache:
    """Sequences in a paged cache, pages in a shuffled order."""
    def __init__(self, lengths, hk, d, page, dtype):
        self.page, pages = page, -(-max(lengths) // page)
        self.table = rng().permutation(len(lengths) * pages).reshape(len(lengths), pages).astype(np.int32)
        self.k, self.v = (np.zeros((len(lengths) * pages, hk, page, d), dtype) for _ in "kv")

    def rows(self, cache, line, n):
        """[n, hk, d] of a sequence."""
        at = np.arange(n)
        return cache[self.table[line, at // self.page], :, at % self.page].astype(np.float64)


class HeadParts:
    """What a model may have between the product that makes queries, keys and values and their rotation: biases, and norms of the heads of queries and keys."""
    def __init__(self, kind, hq, hk, d):
        self.hq, self.hk, self.kind = hq, hk, kind
        self.bias, self.q, self.k = normal(hq + 2 * hk, d, seed=20), normal(d, seed=21, dtype=BF16), normal(d, seed=22, dtype=BF16)

    def args(self):
        return self.bias, self.q, self.k, 1e-5, self.apart

    def constants(self):
        return dict(BIAS="bias" in self.kind, NORM="norm" in self.kind, PARTS=self.parts)

    def split(self, qkv):
        """What the kernel gets: parts whose sum is qkv, and lines that nobody reads between them."""
        self.parts, self.apart = (3, qkv.size + 40) if "parts" in self.kind else (1, 0)
        parts = normal(self.parts, qkv.size + 40, seed=23)
        parts[0, :qkv.size] = qkv.ravel() - parts[1:, :qkv.size].sum(0)
        return parts

    def of(self, qkv):
        """[..., hq + 2 hk, d] before the rotation."""
        x = qkv.astype(np.float64) + (self.bias if "bias" in self.kind else 0)
        if "norm" in self.kind:
            scaled = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
            x = np.concatenate([scaled[..., :self.hq, :] * self.q.astype(np.float64), scaled[..., self.hq:self.hq + self.hk, :] * self.k.astype(np.float64), x[..., self.hq + self.hk:, :]], -2)
        return x


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("kind", ["", "bias", "norm", "bias norm", "parts", "parts bias norm"])
def test_rope_append(dev, heads, kind):
    hq, hk, d, page = 5, 2, 16, 4
    cache = Cache([7, 9], hk, d, page, np.float32)
    slots, positions = np.array([1, 0, 1], np.int32), np.array([7, 2, 8], np.int32)
    given, q, parts = normal(3, hq + 2 * hk, d), np.empty((3, hq, d), np.float32), HeadParts(kind, hq, hk, d)
    qkv = parts.of(given)
    angle = np.arange(9)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
    dev(attention_kernels.rope_append, (3, -(-(hq + 2 * hk) // heads)), parts.split(given), q, cache.k, cache.v, np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32), positions, slots, cache.table,
        cache.table.shape[1], *parts.args(), HQ=hq, HK=hk, D=d, PAGE=page, HEADS=heads, **parts.constants())
    turn = (qkv[..., :d // 2] + 1j * qkv[..., d // 2:]) * np.exp(1j * angle[positions])[:, None]
    turned = np.concatenate([turn.real, turn.imag], -1)
    close(q, turned[:, :hq], 1e-6)
    for r in range(3):
        close(cache.rows(cache.k, slots[r], 9)[positions[r]], turned[r, hq:hq + hk], 1e-6)
        close(cache.rows(cache.v, slots[r], 9)[positions[r]], qkv[r, hq + hk:], 1e-6 if kind else 0)
    assert np.count_nonzero(cache.v.any((1, 3))) == 3, "other places are not written"


@pytest.mark.parametrize("dtype,bound", [(np.float32, 2e-6), (BF16, 0.02)])
@pytest.mark.parametrize("queries,splits,descriptors", [(1, 1, False), (8, 1, False), (8, 1, True), (1, 4, False)])
@pytest.mark.parametrize("window", [0, 1, 5, 16, 33, 100])
def test_paged_attention(dev, dtype, bound, queries, splits, descriptors, window):
    """Three sequences: a decode step at the end of a page, a long prefill, and a chunk behind what the cache has. Windows shorter than a block, and longer than every sequence."""
    hq, hk, d, page = 6, 2, 16, 32
    spans = [(31, 1), (0, 39), (37, 7)]  # keys before, new tokens
    cache = Cache([a + b for a, b in spans], hk, d, page, dtype)
    cache.k[:], cache.v[:] = normal(*cache.k.shape, dtype=dtype, seed=5), normal(*cache.v.shape, dtype=dtype, seed=6)
    q = normal(sum(b for _, b in spans), hq, d, dtype=dtype)
    tiles, want, row = [], np.empty(q.shape), 0
    for line, (before, new) in enumerate(spans):
        tiles += [(row + i, min(queries, new - i), before + i, line) for i in range(0, new, queries)]
        for i in range(new):
            k, v = (cache.rows(c, line, before + i + 1)[-window:] for c in (cache.k, cache.v))
            for h in range(hq):
                s = k[:, h // (hq // hk)] @ q[row, h].astype(np.float64) * d**-0.5
                p = np.exp(s - s.max())
                want[row, h] = p @ v[:, h // (hq // hk)] / p.sum()
            row += 1
    out, n = np.empty(q.shape, dtype), len(tiles)
    bm = max(16, tegula.next_power_of_2(queries * hq // hk))
    parts, sums = (np.full((splits, n, hq, d), np.nan, np.float32), np.full((splits, n, hq, 2), np.nan, np.float32)) if splits > 1 else (out, out)
    tiles = np.array(tiles, np.int32)
    dev(attention_kernels.paged_attention, (hk, n, splits), q, cache.k, cache.v, parts, sums, tiles, cache.table, cache.table.shape[1], cache.k.size // d, d**-0.5,
        HQ=hq, HK=hk, D=d, PAGE=page, QUERIES=queries, BM=bm, BN=16, SPLITS=splits, DESCRIPTORS=descriptors, WINDOW=window)
    if splits > 1:
        dev(attention_kernels.attention_parts, (n, hq), parts, sums, out, tiles, HQ=hq, D=d, SPLITS=splits)
    close(out, want, bound)


@pytest.mark.parametrize("dtype,bound", [(np.float32, 2e-6), (BF16, 0.02)])
@pytest.mark.parametrize("first,splits,early", [(16, 1, False), (64, 1, True), (16, 4, False), (32, 2, True)])
@pytest.mark.parametrize("window,kind", [(0, ""), (1, ""), (17, ""), (40, ""), (0, "bias"), (17, "norm"), (40, "bias norm"), (0, "parts"), (0, "parts bias norm")])
def test_decode_attention(dev, dtype, bound, first, splits, early, window, kind):
    """Sequences whose new token is the first, the last of a page, the first of one, and far behind; the appended key counts, what pages hold behind it does not."""
    hq, hk, d, page = 6, 2, 16, 32
    befores = [0, 31, 64, 101]
    cache = Cache([b + 1 for b in befores], hk, d, page, dtype)
    cache.k[:], cache.v[:] = normal(*cache.k.shape, dtype=dtype, seed=5), normal(*cache.v.shape, dtype=dtype, seed=6)
    rows, n = len(befores), len(befores)
    given, parts_of_heads = normal(rows, hq + 2 * hk, d), HeadParts(kind, hq, hk, d)
    qkv = parts_of_heads.of(given)
    angle = np.arange(max(befores) + 1)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
    turn = (qkv[..., :d // 2] + 1j * qkv[..., d // 2:]) * np.exp(1j * angle[befores])[:, None]
    turned = np.concatenate([turn.real, turn.imag], -1)
    want = np.empty((rows, hq, d))
    for r, before in enumerate(befores):
        k, v = (np.concatenate([cache.rows(c, r, before), new[None]])[-window:] for c, new in ((cache.k, turned[r, hq:hq + hk]), (cache.v, qkv[r, hq + hk:])))
        for h in range(hq):
            s = k[:, h // (hq // hk)] @ turned[r, h] * d**-0.5
            p = np.exp(s - s.max())
            want[r, h] = p @ v[:, h // (hq // hk)] / p.sum()
    out = np.empty((rows, hq, d), dtype)
    parts, sums = (np.full((splits, n, hq, d), np.nan, np.float32), np.full((splits, n, hq, 2), np.nan, np.float32)) if splits > 1 else (out, out)
    tiles = np.array([(r, 1, b, r) for r, b in enumerate(befores)], np.int32)
    others = cache.k.copy()
    dev(attention_kernels.decode_attention, (hk, n, splits), parts_of_heads.split(given), cache.k, cache.v, parts, sums, np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32), tiles, cache.table,
        cache.table.shape[1], d**-0.5, *parts_of_heads.args(), HQ=hq, HK=hk, D=d, PAGE=page, BM=16, FIRST=first, BN=16, SPLITS=splits, EARLY=early, WINDOW=window, **parts_of_heads.constants(), **({"launch_pdl": True} if early and dev.name == "cuda" else {}))
    if splits > 1:
        dev(attention_kernels.attention_parts, (n, hq), parts, sums, out, tiles, HQ=hq, D=d, SPLITS=splits)
    close(out, want, bound)
    for r, before in enumerate(befores):
        close(cache.rows(cache.k, r, before + 1)[before], turned[r, hq:hq + hk], bound)
        close(cache.rows(cache.v, r, before + 1)[before], qkv[r, hq + hk:], bound)
        others[cache.table[r, before // page], :, before % page] = cache.k[cache.table[r, before // page], :, before % page]
    np.testing.assert_array_equal(others, cache.k)


def test_swiglu(dev):
    x, out = normal(3, 2, 40), np.empty((3, 40), np.float32)
    dev(elementwise.swiglu, (3, 2), x, out, 40, BLOCK=32)
    gate, up = x[:, 0].astype(np.float64), x[:, 1]
    close(out, gate / (1 + np.exp(-gate)) * up, 1e-6)


@pytest.mark.parametrize("kind", ["silu", "gelu", "gelu_tanh"])
def test_bias_activation(dev, kind):
    import math
    x, bias, out = normal(3, 40), normal(40, seed=2), np.empty((3, 40), np.float32)
    dev(elementwise.bias_activation, (3, 2), x, bias, out, 40, KIND=kind, BLOCK=32)
    v = (x + bias).astype(np.float64)
    want = {"silu": lambda: v / (1 + np.exp(-v)), "gelu": lambda: v / 2 * (1 + np.vectorize(math.erf)(v * 0.5**0.5)),
            "gelu_tanh": lambda: v / 2 * (1 + np.tanh((2 / np.pi)**0.5 * (v + 0.044715 * v**3)))}[kind]()
    close(out, want, 1e-6)


def test_softmax(dev):
    x, out = 9 * normal(3, 40), np.empty((3, 40), np.float32)
    dev(elementwise.softmax, (3,), x, out, 40, BLOCK=64)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    close(out, e / e.sum(1, keepdims=True), 1e-6)


def test_cross_entropy(dev):
    x, targets, loss = 9 * normal(4, 100), np.array([0, 99, -100, 40], np.int32), np.full(4, np.nan, np.float32)
    dev(elementwise.cross_entropy, (4,), x, targets, loss, 100, -100, BLOCK=32)
    v = x.astype(np.float64)
    want = np.log(np.exp(v).sum(1)) - v[np.arange(4), targets]
    close(loss, np.where(targets == -100, 0, want), 1e-5)


@pytest.mark.parametrize("x_type,w_type,bound", [(np.float32, np.float32, 3e-5), (np.float32, BF16, 0.1), (BF16, BF16, 0.1)])
@pytest.mark.parametrize("kernel", ["gemv", "gemv, whole rows", "matmul"])
def test_matmul(dev, kernel, x_type, w_type, bound):
    m, n, k, stride = 5, 40, 72, 50
    x, w, out = normal(m, k, dtype=x_type), normal(n, k, dtype=w_type, seed=2), np.zeros((m, stride), np.float32)
    if kernel == "gemv":
        dev(matmul_kernels.gemv, (m, 5), x, w, out, m, n, k, stride, BN=8, BK=32)
    elif kernel == "gemv, whole rows":
        dev(matmul_kernels.gemv, (m, 5), x, w, out, m, n, k, stride, BN=8, BK=128, WHOLE=True)
    else:
        dev(matmul_kernels.matmul, (1, 2), x, w, out, m, n, k, stride, BM=16, BN=32, BK=32)
    close(out[:, :n], x.astype(np.float64) @ w.astype(np.float64).T, bound)
    assert not out[:, n:].any(), "what lies beside the part is not written"


@pytest.mark.parametrize("k,block", [(9000, 16384), (4099, 8192), (300, 8192)])
def test_gemv_of_long_rows(dev, k, block):
    """On CPUs four rows are added up beside one another, as x does not stay in L1 beside what passes by."""
    m, n = 2, 13
    x, w, out = normal(m, k), normal(n, k, seed=2), np.zeros((m, n), np.float32)
    dev(matmul_kernels.gemv, (m, 2), x, w, out, m, n, k, n, BN=8, BK=block, WHOLE=True)
    close(out, x.astype(np.float64) @ w.astype(np.float64).T, 3e-4)


def silu(v):
    return v / (1 + np.exp(-v))


@pytest.mark.parametrize("x_type,early", [(np.float32, False), (BF16, True)])
@pytest.mark.parametrize("norm,add,pair", [(False, False, False), (True, False, False), (False, True, False), (True, False, True)])
@pytest.mark.parametrize("ahead", [1, 3])
def test_gemv_fused(dev, norm, add, pair, x_type, early, ahead):
    n, k = 40, 192
    x, scales, w, out = normal(k, dtype=x_type), normal(k, seed=4).astype(x_type), normal(n * (1 + pair), k, dtype=BF16, seed=2), normal(n, seed=3)
    rounded = np.zeros(n, BF16)
    v = x.astype(np.float64)
    if norm:
        v = v / np.sqrt((v**2).mean() + 1e-5) * scales.astype(np.float64)
    v = w.astype(np.float64) @ v
    want = silu(v[:n]) * v[n:] if pair else v + (out if add else 0)
    dev(matmul_kernels.gemv_fused, (5,), x, scales, w, out, rounded, n, k, 1e-5, NORM=norm, ADD=add, PAIR=pair, EARLY=early, BN=8, BK=32, AHEAD=ahead,
        **({"launch_pdl": True} if early and dev.name == "cuda" else {}))
    close(out, want, 1e-4 * np.abs(want).max())
    np.testing.assert_array_equal(rounded, out.astype(BF16) if add else np.zeros(n, BF16))


@pytest.mark.parametrize("add,pair,more,low", [(False, False, 0, 0), (True, False, 0, 0), (False, True, 0, 0), (False, False, 16, 0), (True, False, 32, 0), (False, False, 16, 32)])
@pytest.mark.parametrize("m,programs", [(37, 2), (5, 9)])
def test_tiled_matmul(dev, add, pair, more, low, m, programs):
    """Tiles of which the last is not full; more, low: of sizes that are no powers of two, with their last parts outside."""
    n, k, stride = 40, 72, 52
    x, w, out = normal(m, k, dtype=BF16), normal(n * (1 + pair), k, dtype=BF16, seed=2), normal(m, stride, seed=3)
    before = out.copy()
    v = x.astype(np.float64) @ w.astype(np.float64).T
    want = silu(v[:, :n]) * v[:, n:] if pair else v + (before[:, :n] if add else 0)
    dev(matmul_kernels.tiled_matmul, (programs,), x, w, out, m, n, k, stride, m, ADD=add, PAIR=pair, EARLY=False, SPLITS=1, BM=16, BN=16, BK=32, LINES=2, MORE=more, LOW=low)
    close(out[:, :n], want, 1e-5 * np.abs(want).max())
    np.testing.assert_array_equal(out[:, n:], before[:, n:])


@pytest.mark.parametrize("add,pair", [(False, False), (True, False), (False, True)])
def test_tiled_matmul_in_clusters(dev, add, pair):
    """Two thread blocks share a tile of 256 rows, of which the second has few; its weights go to both at once."""
    m, n, k = 150, 72, 128
    x, w, out = normal(m, k, dtype=BF16), normal(n * (1 + pair), k, dtype=BF16, seed=2), normal(m, n, seed=3)
    v = x.astype(np.float64) @ w.astype(np.float64).T
    want = silu(v[:, :n]) * v[:, n:] if pair else v + (out.astype(np.float64) if add else 0)
    dev(matmul_kernels.tiled_matmul, (2,), x, w, out, m, n, k, n, m, ADD=add, PAIR=pair, EARLY=False, SPLITS=1, BM=256, BN=64, BK=64, LINES=2, num_warps=8, num_stages=3, num_ctas=2)
    close(out, want, 1e-5 * np.abs(want).max())


@pytest.mark.parametrize("pair", [False, True])
def test_tiled_matmul_with_weights_ahead(dev, pair):
    """Weights are prefetched behind the last row and the last input as well, where addresses stay inside."""
    m, n, k = 5, 40, 72
    x, w, out = normal(m, k, dtype=BF16), normal(n * (1 + pair), k, dtype=BF16, seed=2), np.empty((m, n), np.float32)
    v = x.astype(np.float64) @ w.astype(np.float64).T
    want = silu(v[:, :n]) * v[:, n:] if pair else v
    dev(matmul_kernels.tiled_matmul, (3,), x, w, out, m, n, k, n, m, ADD=False, PAIR=pair, EARLY=True, SPLITS=1, BM=16, BN=16, BK=32, LINES=2, AHEAD=128, **({"launch_pdl": True} if dev.name == "cuda" else {}))
    close(out, want, 1e-5 * np.abs(want).max())


@pytest.mark.parametrize("m,programs", [(37, 3), (5, 18)])
@pytest.mark.parametrize("k,splits", [(72, 2), (256, 4)])
def test_tiled_matmul_in_parts(dev, m, programs, k, splits):
    """Parts of the inputs, of which the last may have fewer, and the norm that adds them to the residual stream."""
    n, block = 40, 16
    x, w = normal(m, k, dtype=BF16), normal(n, k, dtype=BF16, seed=2)
    lines = -(-m // block) * block
    parts, stream, scale, out = np.full((splits, lines, n), np.nan, np.float32), normal(m, n, seed=3), normal(n, seed=4), np.empty((m, n), np.float32)
    dev(matmul_kernels.tiled_matmul, (programs,), x, w, parts, m, n, k, n, splits * lines, ADD=False, PAIR=False, EARLY=False, SPLITS=splits, BM=block, BN=block, BK=32, LINES=2)
    want = x.astype(np.float64) @ w.astype(np.float64).T
    close(parts[:, :m].sum(0), want, 1e-5 * np.abs(want).max())
    want += stream
    dev(norms.rms_norm, (m,), stream, parts, scale, out, n, lines * n, 1e-5, ADD=splits, BLOCK=64)
    close(stream, want, 1e-5 * np.abs(want).max())
    close(out, want / np.sqrt((want**2).mean(1, keepdims=True) + 1e-5) * scale, 1e-5)


def test_fp8_matmul(dev):
    x, w = normal(5, 96, dtype=FP8), normal(40, 96, dtype=FP8, seed=2)
    sx, sw, out = np.arange(1, 6, dtype=np.float32), np.linspace(0.5, 2, 40, dtype=np.float32), np.empty((5, 40), np.float32)
    dev(matmul_kernels.fp8_matmul, (1, 2), x, w, sx, sw, out, 5, 40, 96, BM=16, BN=32, BK=32)
    close(out, x.astype(np.float64) @ w.astype(np.float64).T * sx[:, None] * sw, 1e-3 * 5 * 2 * 96)


def quantize(w, bits, g):
    """The layout of quantized.py in plain numpy: bytes, scales, and the weights that they stand for."""
    n, k = w.shape
    blocks, levels = -(-n // 64), 7 if bits == 4 else 127
    padded = np.zeros((blocks * 64, k), np.float32)
    padded[:n] = w
    v = padded.reshape(blocks, 64, k // g, g).transpose(0, 2, 3, 1)  # [block, group, input, output]
    scales = (np.abs(v).max(2) / np.float32(levels)).astype(BF16)
    s = scales.astype(np.float32)[:, :, None]
    q = np.clip(np.floor(np.where(s > 0, v / np.where(s > 0, s, 1), 0) + np.float32(0.5)), -levels - 1, levels).astype(np.int32)
    means = (q * s.astype(np.float64)).transpose(0, 3, 1, 2).reshape(blocks * 64, k)[:n]
    if bits == 4:
        q = q[:, :, :g // 2] + 8 | q[:, :, g // 2:] + 8 << 4
    q = q.reshape(blocks, k // g, -1, 4, 64).swapaxes(-1, -2)
    return np.ascontiguousarray(q.astype(np.uint8)), np.ascontiguousarray(scales), means


@pytest.mark.parametrize("bits", [4, 8])
def test_quantize_and_dequantize(dev, bits):
    n, k, g = 100, 64, 32
    w = normal(n, k, dtype=BF16)
    w[:, :32] *= (np.arange(n) % 3 > 0)[:, None]  # groups of zeros
    q, scales, means = quantize(w.astype(np.float32), bits, g)
    got_q, got_scales, back = np.zeros(q.shape, np.uint8), np.zeros(scales.shape, BF16), np.full((n, k), np.nan, np.float32)
    dev(quantized.quantize_weights, (2, k // g), w, got_q, got_scales, n, k, G=g, BITS=bits)
    np.testing.assert_array_equal(got_scales, scales)
    assert (got_q != q).mean() < 0.01, "only a division at the middle of two levels may round the other way"
    dev(quantized.dequantize_weights, (2, k // g), q, scales, back, n, k, G=g, BITS=bits)
    close(back, means, 0)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("m,bm", [(1, 1), (3, 4), (19, 16)])
def test_quantized_matmul(dev, bits, m, bm):
    n, k, g, stride = 100, 128, 64, 104
    q, scales, means = quantize(normal(n, k), bits, g)
    x = normal(m, k, seed=2) * (1 + 1000 * (np.arange(k) == 5))  # one large feature, as transformers have them
    want = x.astype(np.float64) @ means.T
    parts, sx, sums = np.zeros((m, 2, k), np.int8), np.zeros((m, k // g), np.float32), np.zeros((m, k // g), np.int32)
    dev(quantized.split_activations, (m, k // g), x, parts, sx, sums, k, G=g)
    integers = 256 * parts[:, 0].astype(np.int64) + parts[:, 1]
    np.testing.assert_array_equal(sums, integers.reshape(m, k // g, g).sum(2))
    close(integers.reshape(m, k // g, g) * sx.astype(np.float64)[:, :, None], x.reshape(m, k // g, g), np.abs(x).max() * 2**-15.9)
    out = np.zeros((m, stride), np.float32)
    dev(quantized.integer_matmul, (-(-m // bm), 2), parts, sx, sums, q, scales, out, m, n, k, stride, G=g, BITS=bits, BM=bm)
    close(out[:, :n], want, np.abs(x).max() * 2**-15 * np.sqrt(g) * np.abs(means).max() * 4)
    assert not out[:, n:].any()
    out[:] = 0
    bm = max(bm, 16)
    dev(quantized.widened_matmul, (-(-m // bm), 2), x.astype(np.float32), q, scales, out, m, n, k, stride, G=g, BITS=bits, BM=bm)
    close(out[:, :n], want, np.abs(x).max() * 1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("tokens,each,bm", [(1, 2, 1), (9, 2, 4), (9, 1, 16)])
def test_products_of_quantized_experts(dev, bits, tokens, each, bm):
    """Choices in the order of their experts, as moe_align gives them; experts that nobody chose, tiles that nobody needs, and outputs that do not fill a block."""
    e, n, k, g, stride = 5, 100, 128, 64, 104
    q, scales, means = (np.stack(parts) for parts in zip(*(quantize(normal(n, k, seed=i), bits, g) for i in range(e))))
    x, experts = normal(tokens, k, seed=9), np.stack([rng().permutation(e - 1)[:each] for _ in range(tokens)]).astype(np.int32)
    experts[-1, 0] = e - 1
    count = tokens * each
    slots = -(-(count + e * (bm - 1)) // bm) * bm
    order, tile_experts = np.full(slots, -1, np.int32), np.full(slots // bm, -1, np.int32)
    at = 0
    for i in range(e):
        mine = np.flatnonzero(experts.ravel() == i)
        order[at:at + len(mine)] = mine
        tiles = -(-len(mine) // bm)
        tile_experts[at // bm:at // bm + tiles] = i
        at += tiles * bm
    want = np.einsum("ck,cnk->cn", np.repeat(x, each, 0).astype(np.float64), means[experts.ravel()])
    parts, sx, sums = np.zeros((tokens, 2, k), np.int8), np.zeros((tokens, k // g), np.float32), np.zeros((tokens, k // g), np.int32)
    dev(quantized.split_activations, (tokens, k // g), x, parts, sx, sums, k, G=g)
    out = np.zeros((count, stride), np.float32)
    dev(quantized.grouped_integer_matmul, (slots // bm, 2), parts, sx, sums, q, scales, out, order, tile_experts, n, k, stride, EACH=each, G=g, BITS=bits, BM=bm)
    close(out[:, :n], want, np.abs(x).max() * 2**-15 * np.sqrt(g) * np.abs(means).max() * 4)
    assert not out[:, n:].any()
    if bm < 16 and dev.name != "cpu":
        return  # dots of GPUs have 16 rows
    out[:] = 0
    dev(quantized.grouped_widened_matmul, (slots // bm, 2), x, q, scales, out, order, tile_experts, n, k, stride, EACH=each, G=g, BITS=bits, BM=bm)
    close(out[:, :n], want, np.abs(x).max() * 1e-5)


@pytest.mark.parametrize("bits,rows,cols,k", [(4, 8, 64, 192), (4, 16, 32, 256), (8, 16, 32, 192), (8, 64, 16, 256)])
@pytest.mark.parametrize("tokens,each,bm,x_type", [(3, 0, 1, np.float32), (3, 0, 2, BF16), (3, 0, 4, BF16), (1, 2, 1, BF16), (3, 2, 1, np.float32)])
def test_quantized_products_of_few_rows(dev, bits, rows, cols, k, tokens, each, bm, x_type):
    """Of one matrix, and of the experts that the rows choose, also the same one; outputs that do not fill a block, rows that do not fill a program; then silu(gate) * up of two."""
    e, n, g, stride = 3 if each else 1, 100, 64, 104
    sides = [[np.stack(parts) for parts in zip(*(quantize(normal(n, k, seed=10 * side + i), bits, g) for i in range(e)))] for side in range(2)]
    x, experts = normal(tokens, k, seed=9, dtype=x_type), np.array([2, 0, 2, 1, 1, 2], np.int32)[:tokens * max(each, 1)]
    out = np.zeros((len(experts), stride), np.float32)
    (q, scales, means), (up_q, up_scales, up_means) = sides
    mine = experts if each else 0 * experts
    a = np.repeat(x, max(each, 1), 0).astype(np.float64)
    gate, up = (np.einsum("ck,cnk->cn", a, m[mine]) for m in (means, up_means))
    for pair, want in ((False, gate), (True, gate / (1 + np.exp(-gate)) * up)):
        dev(quantized.widened_gemv, (-(-len(experts) // bm), -(-n // cols)), x, q, scales, up_q, up_scales, out, experts, len(experts), n, k, stride, PAIR=pair, EACH=each, G=g, BITS=bits, BM=bm, ROWS=rows,
            COLS=cols, num_warps=2)
        close(out[:, :n], want, np.abs(want).max() * 1e-5)
        assert not out[:, n:].any()


@pytest.mark.parametrize("bits,step,splits,cols,m,x_type", [(4, 2, 1, 64, 5, BF16), (4, 1, 2, 64, 16, np.float32), (4, 4, 1, 32, 3, np.float16), (8, 2, 2, 64, 17, BF16), (8, 4, 1, 64, 4, np.float32)])
def test_quantized_products_whose_warps_share_the_inputs(dev, bits, step, splits, cols, m, x_type):
    """Parts of the programs that share a tile, then silu(gate) * up; outputs that do not fill a block, rows that do not fill a tile."""
    n, k, g, stride, height = 100, 256, 64, 104, 32
    (q, scales, means), (up_q, up_scales, up_means) = (quantize(normal(n, k, seed=10 * side), bits, g) for side in range(2))
    x = normal(m, k, seed=9, dtype=x_type)
    gate, up = (x.astype(np.float64) @ w.T for w in (means, up_means))
    for pair, parts, want in ((False, splits, gate), (True, 1, gate / (1 + np.exp(-gate)) * up)):
        out = np.zeros((splits, height, stride), np.float32)
        dev(quantized.shared_matmul, (-(-m // 16), -(-n // cols), parts), x, q, scales, up_q, up_scales, out, m, n, k, stride, height, PAIR=pair, SPLITS=parts, G=g, BITS=bits, BM=16, STEP=step, COLS=cols)
        close(out.sum(0)[:m, :n], want, np.abs(want).max() * 1e-5)
        assert not out[:, :, n:].any() and not out[:, m:].any()


def test_argmax(dev):
    x, out = normal(3, 100), np.zeros(3, np.int32)
    x[1, 70] = x[1, 20] = 9
    dev(sampling.argmax, (3,), x, out, 100, BLOCK=32)
    np.testing.assert_array_equal(out, x.argmax(1))


@pytest.mark.parametrize("parts", [1, 3, 8, 120])
def test_argmax_of_parts(dev, parts):
    """Parts that divide the row, or not; more parts than blocks; equal logits in two of them."""
    x, out = normal(3, 100), np.zeros(3, np.int32)
    x[1, 70] = x[1, 20] = 9
    tops, places = np.zeros((3, parts), np.float32), np.zeros((3, parts), np.int32)
    dev(sampling.argmax_parts, (3, parts), x, tops, places, 100, BLOCK=16)
    dev(sampling.argmax_join, (3,), tops, places, out, 100, parts, BLOCK=128)
    np.testing.assert_array_equal(out, x.argmax(1))


def kept(x, temperature, k, p):
    """The tokens that may be drawn, and their probabilities, by sorting."""
    order = np.argsort(-x, kind="stable")
    v = x[order].astype(np.float64) / temperature
    w = np.exp(v - v[0])
    if k:
        w[k:] = 0
    w /= w.sum()
    n = np.searchsorted(np.cumsum(w), p) + 1
    w[n:] = 0
    return order, w / w.sum()


@pytest.mark.parametrize("temperature,k,p", [(1.0, 0, 1.0), (0.7, 5, 1.0), (1.3, 0, 0.6), (0.9, 20, 0.8)])
def test_sample(dev, temperature, k, p):
    rows = 400 if dev.name == "cpu" else 24
    x = np.tile(2 * normal(100), (rows, 1))
    out, full = np.zeros(rows, np.int32), lambda v, t: np.full(rows, v, t)
    seeds, steps = np.arange(rows, dtype=np.int32), full(3, np.int32)
    args = (x, out, full(temperature, np.float32), full(k, np.int32), full(p, np.float32), seeds, steps, 100)
    dev(sampling.sample, (rows,), *args, BLOCK=64, SCAN=64)
    order, w = kept(x[0], temperature, k, p)
    allowed = order[w > 0]
    assert set(out) <= set(allowed)
    if dev.name == "cpu":
        share = np.bincount(out, minlength=100)[order] / rows
        assert np.abs(share - w).max() < 4 * (0.25 / rows)**0.5
    first = out.copy()
    dev(sampling.sample, (rows,), *args, BLOCK=32, SCAN=16)
    np.testing.assert_array_equal(out, first)  # the same draw, whatever the block


def test_sample_without_temperature_is_greedy(dev):
    x, out = normal(2, 100), np.zeros(2, np.int32)
    f, i = np.zeros(2, np.float32), np.zeros(2, np.int32)
    dev(sampling.sample, (2,), x, out, f, i, f + 1, i, i, 100, BLOCK=32, SCAN=32)
    np.testing.assert_array_equal(out, x.argmax(1))


def test_moe(dev):
    tokens, e, each, k, n, tile = 9, 5, 2, 40, 24, 16
    logits, x, w = normal(tokens, e), normal(tokens, k, seed=2), normal(e, n, k, seed=3)
    experts, weights = np.zeros((tokens, each), np.int32), np.zeros((tokens, each), np.float32)
    dev(moe.moe_gate, (tokens,), logits, experts, weights, e, K=each, BLOCK=8)
    want = np.argsort(-logits, 1)[:, :each]
    np.testing.assert_array_equal(experts, want)
    p = np.exp(np.take_along_axis(logits, want, 1).astype(np.float64))
    close(weights, p / p.sum(1, keepdims=True), 1e-6)

    count = tokens * each
    slots = -(-(count + e * (tile - 1)) // tile) * tile
    order, tile_experts = np.full(slots, 99, np.int32), np.full(slots // tile, 99, np.int32)
    dev(moe.moe_align, (1,), experts, order, tile_experts, count, e, slots, TILE=tile, BLOCK=8)
    assert sorted(order[order >= 0]) == list(range(count))
    for t, expert in enumerate(tile_experts):
        mine = order[t * tile:(t + 1) * tile]
        assert all(experts.ravel()[c] == expert for c in mine[mine >= 0]) and (expert >= 0 or (mine == -1).all())

    parts, out = np.zeros((count, n), np.float32), np.zeros((tokens, n), np.float32)
    dev(moe.grouped_matmul, (slots // tile, 1), x, w, parts, order, tile_experts, n, k, n, EACH=each, BM=tile, BN=32, BK=32)
    exact = np.einsum("tk,tjnk->tjn", x.astype(np.float64), w[experts])
    close(parts.reshape(tokens, each, n), exact, 2e-5)
    dev(moe.moe_combine, (tokens, 1), parts, weights, out, n, K=each, BLOCK=32)
    close(out, (exact * weights[:, :, None]).sum(1), 2e-5)


@pytest.mark.parametrize("k,p", [(3, 1.0), (0, 0.6), (5, 0.7), (1, 0.5), (300, 0.999)])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("block,whole,ctas,cuts", [(128, False, 1, 1), (256, False, 2, 4), (512, True, 1, 1), (512, True, 4, 4)])
def test_sample_stays_among_the_allowed(dev, k, p, ties, block, whole, ctas, cuts):
    """However early the search for the cut-off ends: only tokens that top-k and top-p leave, and all of the likely ones, of equal logits all."""
    n, rows = 300, 64 if dev.name == "cpu" or ctas == 1 else 24
    x = np.tile(normal(1, n, seed=8) * 2, (rows, 1))
    if ties:
        x = np.round(x)
    w = np.exp(x[0].astype(np.float64) - x[0].max())
    kept = x[0] >= (np.sort(x[0])[-k] if k else -np.inf)
    order = np.unique(x[0][kept])[::-1]  # the fewest of the largest logits that hold p
    held = np.cumsum([w[x[0] == v].sum() for v in order])
    if p < 1:
        kept &= x[0] >= order[np.argmax(held >= p * held[-1])]
    out = np.empty(rows, np.int32)
    full = lambda v, t: np.full(rows, v, t)
    dev(sampling.sample, (rows,), x, out, full(1, np.float32), full(k, np.int32), full(p, np.float32), np.arange(rows, dtype=np.int32), full(0, np.int32), n, BLOCK=block, SCAN=64, WHOLE=whole, CUTS=cuts, num_ctas=ctas)
    assert kept[out].all()
    likely = np.flatnonzero(kept & (w >= w[kept].sum() / 6))  # the chance that one of them is not drawn is (5/6)^64
    assert rows < 64 or set(likely) <= set(out)
