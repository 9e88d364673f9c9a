"""Layer normalisation, forward: a program a row, the row walked in blocks, so that rows may be of any length."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def layer_norm_kernel(x, out, weight, bias, mean, rstd, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + i, mask=i < cols, other=0.0).to(tl.float32)
    m = tl.sum(total, axis=0) / cols
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        d = tl.where(i < cols, tl.load(x + i, mask=i < cols, other=0.0).to(tl.float32) - m, 0.0)
        squares += d * d
    r = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for start in range(0, cols, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < cols
        normal = (tl.load(x + i, mask=mask, other=0.0).to(tl.float32) - m) * r
        tl.store(out + i, normal * tl.load(weight + i, mask=mask) + tl.load(bias + i, mask=mask), mask=mask)


def layer_norm(x, weight, bias, eps=1e-5, block=1024):
    rows, cols = x.shape
    out, mean, rstd = np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)
    layer_norm_kernel[(rows,)](x, out, weight, bias, mean, rstd, cols, cols, eps, BLOCK=block)
    return out, mean, rstd


def reference(x, weight, bias, eps=1e-5):
    x = x.astype(np.float64)
    mean, var = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * weight + bias, mean[:, 0], 1 / np.sqrt(var[:, 0] + eps)


def main():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((1151, 3000)) * 2 + 1).astype(np.float32)
    weight, bias = rng.standard_normal(3000, dtype=np.float32), rng.standard_normal(3000, dtype=np.float32)
    for name, got, expected in zip(("output", "mean", "rstd"), layer_norm(x, weight, bias), reference(x, weight, bias)):
        error = np.abs(got - expected).max()
        assert error < 1e-4, (name, error)
        print(f"layer_norm, {name}: largest error {error:.1e}")


if __name__ == "__main__":
    main()
