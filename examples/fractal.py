"""A Julia set: for each point a loop that ends when it ends there, written for one point and mapped over blocks of them."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def steps_to_escape(re, im, c_re, c_im, limit):
    n = 0
    while (re * re + im * im <= 4.0) and (n < limit):
        re, im = re * re - im * im + c_re, 2.0 * re * im + c_im
        n += 1
    if n == limit:
        return -1
    else:
        return n


@tegula.jit
def julia_kernel(out, size, c_re, c_im, limit, ROWS: tl.constexpr, COLS: tl.constexpr):
    y = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    x = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    scale = 3.0 / size
    n = tl.map_elementwise(steps_to_escape, x * scale - 1.5, y * scale - 1.5, c_re, c_im, limit)
    tl.store(out + y * size + x, n, mask=(y < size) & (x < size))


def julia(size, c=-0.8 + 0.156j, limit=100):
    out = np.empty((size, size), np.int32)
    julia_kernel[(tegula.cdiv(size, 8), tegula.cdiv(size, 32))](out, size, c.real, c.imag, limit, ROWS=8, COLS=32)
    return out


def reference(size, c=-0.8 + 0.156j, limit=100):
    grid = (np.arange(size, dtype=np.float32) * np.float32(3.0 / size) - np.float32(1.5)).astype(np.float64)
    z = grid[None, :] + 1j * grid[:, None]
    n = np.zeros(z.shape, np.int32)
    for _ in range(limit):
        inside = np.abs(z) <= 2
        z = np.where(inside, z * z + c, z)
        n += inside
    return np.where(n == limit, -1, n)


def main():
    size = 500
    # The boundary is chaotic: float32 and float64 part there.
    equal = (julia(size) == reference(size)).mean()
    assert equal > 0.97, equal
    print(f"Julia set of {size} x {size} points: {equal:.2%} equal to numpy in float64")


if __name__ == "__main__":
    main()
