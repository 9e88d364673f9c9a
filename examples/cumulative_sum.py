"""Running sums of rows of any length: a scan per block, and the sum so far carried to the next one."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def cumsum_kernel(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + i, mask=i < cols, other=0.0)
        tl.store(out + row * cols + i, carry + tl.cumsum(v, 0), mask=i < cols)
        carry += tl.sum(v, 0)


def cumsum(x, block=1024):
    rows, cols = x.shape
    out = np.empty_like(x)
    cumsum_kernel[(rows,)](x, out, cols, BLOCK=block)
    return out


def main():
    x = np.random.default_rng(0).standard_normal((512, 5000), dtype=np.float32)
    error = np.abs(cumsum(x) - np.cumsum(x.astype(np.float64), axis=1)).max()
    assert error < 1e-3, error
    print(f"cumulative sum of {x.shape}: largest error {error:.1e}")


if __name__ == "__main__":
    main()
