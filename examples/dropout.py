"""Dropout that stores no mask: the random numbers depend on the seed and the position only (Philox), so any program can
make them again."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


def dropout(x, p, seed, block=4096):
    out = np.empty_like(x)
    dropout_kernel[(tegula.cdiv(x.size, block),)](x, out, x.size, p, seed, BLOCK=block)
    return out


def philox_uniform(seed, n):
    """The first word of Philox-4x32-10 at the counters 0 .. n-1, as a number in [0, 1)."""
    low = np.uint64(0xffffffff)
    c0, c1, c2, c3 = np.arange(n, dtype=np.uint64), *np.zeros((3, n), np.uint64)
    k0, k1 = seed & 0xffffffff, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & low, (
            p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
    word = c0.astype(np.uint32).view(np.int32)
    return np.where(word < 0, ~word, word).astype(np.float32) * np.float32(4.6566127342e-10)


def reference(x, p, seed):
    return np.where(philox_uniform(seed, x.size) > np.float32(p), x / (np.float32(1) - np.float32(p)), np.float32(0))


def main():
    x = np.random.default_rng(0).standard_normal(100000, dtype=np.float32)
    y = dropout(x, 0.25, seed=123)
    expected = reference(x, 0.25, 123)
    assert np.array_equal(y == 0, expected == 0)
    assert np.allclose(y, expected, rtol=1e-6)
    assert np.array_equal(y, dropout(x, 0.25, seed=123, block=256))
    assert not np.array_equal(y, dropout(x, 0.25, seed=124))
    print(f"dropout: {np.count_nonzero(y) / y.size:.1%} kept, the same ones as in numpy, whatever the block size")


if __name__ == "__main__":
    main()
