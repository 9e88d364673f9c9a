"""Histogram: each program counts its block, then adds its counts to the total with atomics."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def histogram_kernel(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0).to(tl.int32)
    local = tl.histogram(v, BINS, mask=i < n)
    tl.atomic_add(counts + tl.arange(0, BINS), local, mask=local > 0)


def histogram(x, bins=256, block=16384):
    counts = np.zeros(bins, np.int32)
    histogram_kernel[(tegula.cdiv(x.size, block),)](x, counts, x.size, BINS=bins, BLOCK=block)
    return counts


def main():
    x = np.random.default_rng(0).normal(128, 30, 1_000_003).clip(0, 255).astype(np.uint8)
    assert np.array_equal(histogram(x), np.bincount(x, minlength=256))
    print(f"histogram of {x.size} bytes: equal to numpy")


if __name__ == "__main__":
    main()
