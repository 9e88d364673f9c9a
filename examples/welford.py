"""Mean and variance of rows in one pass: a running estimate is an aggregate, and two of them are joined by its `+`.

Each row is read in blocks. Every column of the block keeps an estimate of its own, which the loop carries; at the end `tl.reduce` joins the columns. """
import numpy as np
import tegula
import tegula.language as tl


@tegula.aggregate
class Estimate:
    """Of `count` numbers: their mean, and the sum of the squares of what they differ from it."""
    count: tl.tensor
    mean: tl.tensor
    spread: tl.tensor

    @tegula.jit
    def __add__(self, other):
        count = self.count + other.count
        part = other.count / tl.maximum(count, 1.0)
        away = other.mean - self.mean
        return Estimate(count, self.mean + away * part, self.spread + other.spread + away * away * self.count * part)

    @tegula.jit
    def variance(self):
        return self.spread / self.count


@tegula.jit
def one(x, inside):
    """The estimate of a single number, or of none."""
    return Estimate(inside.to(tl.float32), tl.where(inside, x, 0.0), tl.zeros_like(x))


@tegula.jit
def joined(count, mean, spread, count2, mean2, spread2):
    both = Estimate(count, mean, spread) + Estimate(count2, mean2, spread2)
    return both.count, both.mean, both.spread


@tegula.jit
def moments_kernel(x, mean, variance, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    estimate = one(tl.zeros([BLOCK], tl.float32), i < 0)
    for start in range(0, columns, BLOCK):
        inside = start + i < columns
        estimate = estimate + one(tl.load(x + row * columns + start + i, mask=inside, other=0.0), inside)
    count, middle, spread = tl.reduce((estimate.count, estimate.mean, estimate.spread), 0, joined)
    tl.store(mean + row, middle)
    tl.store(variance + row, Estimate(count, middle, spread).variance())


def moments(x):
    rows, columns = x.shape
    mean, variance = np.empty(rows, np.float32), np.empty(rows, np.float32)
    moments_kernel[(rows,)](x, mean, variance, columns, BLOCK=128)
    return mean, variance


def main():
    x = 1000 + np.random.default_rng(0).standard_normal((50, 1000), dtype=np.float32)  # the sum of squares would lose every digit
    mean, variance = moments(x)
    wide = x.astype(np.float64)
    error = max(np.abs(mean - wide.mean(1)).max(), np.abs(variance - wide.var(1)).max())
    assert error < 1e-3, error
    print(f"mean and variance of 50 rows: largest error {error:.1e}")


if __name__ == "__main__":
    main()
