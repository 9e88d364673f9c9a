"""Column sums by many programs into few shared rows, each of them behind a spin lock.

Every program sums its rows, takes the lock of one of GROUPS buffers, adds, and lets go. A second kernel adds up the
buffers. """
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def partial_kernel(x, buffers, locks, rows, cols, GROUPS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
    sums = tl.sum(v, axis=0)
    group = tl.program_id(0) % GROUPS
    lock = locks + group
    buffer = buffers + group * cols + c
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(buffer, tl.load(buffer, mask=c < cols) + sums, mask=c < cols)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@tegula.jit
def total_kernel(buffers, out, cols, GROUPS: tl.constexpr, COLS: tl.constexpr):
    g, c = tl.arange(0, GROUPS), tl.arange(0, COLS)
    v = tl.load(buffers + g[:, None] * cols + c[None, :], mask=c[None, :] < cols, other=0.0)
    tl.store(out + c, tl.sum(v, axis=0), mask=c < cols)


def column_sums(x, groups=8, block_rows=16):
    rows, cols = x.shape
    buffers, locks, out = np.zeros((groups, cols), np.float32), np.zeros(groups, np.int32), np.empty(cols, np.float32)
    width = tegula.next_power_of_2(cols)
    partial_kernel[(tegula.cdiv(rows, block_rows),)](x, buffers, locks, rows, cols, GROUPS=groups, ROWS=block_rows,
                                                      COLS=width)
    total_kernel[(1,)](buffers, out, cols, GROUPS=groups, COLS=width)
    return out


def main():
    x = np.random.default_rng(0).standard_normal((10000, 300), dtype=np.float32)
    error = np.abs(column_sums(x) - x.astype(np.float64).sum(axis=0)).max()
    assert error < 1e-3, error
    print(f"column sums of {x.shape} under spin locks: largest error {error:.1e}")


if __name__ == "__main__":
    main()
