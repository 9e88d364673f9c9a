"""Softmax of rows in one pass over memory: a program holds a whole row."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def softmax_kernel(x, out, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * x_stride + i, mask=i < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * out_stride + i, e / tl.sum(e, axis=0), mask=i < cols)


def softmax(x):
    rows, cols = x.shape
    out = np.empty_like(x)
    softmax_kernel[(rows,)](x, out, cols, cols, cols, BLOCK=tegula.next_power_of_2(cols))
    return out


def reference(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main():
    x = np.random.default_rng(0).standard_normal((1823, 781), dtype=np.float32)
    error = np.abs(softmax(x) - reference(x)).max()
    assert error < 1e-6, error
    print(f"softmax of {x.shape}: largest error {error:.1e}")


if __name__ == "__main__":
    main()
