"""Kernels that several tests launch."""
import tegula
import tegula.language as tl


@tegula.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@tegula.jit
def fill_kernel(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


@tegula.jit
def read_kernel(x, out):
    tl.store(out, tl.load(x + 1))


@tegula.jit
def wrong_kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + missing_name)
