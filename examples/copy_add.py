"""Copy and add vectors: one program a block, the tail masked."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@tegula.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def copy(x, block=4096):
    out = np.empty_like(x)
    copy_kernel[(tegula.cdiv(x.size, block),)](x, out, x.size, BLOCK=block)
    return out


def add(x, y, block=4096):
    out = np.empty_like(x)
    add_kernel[(tegula.cdiv(x.size, block),)](x, y, out, x.size, BLOCK=block)
    return out


def main():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(98432, dtype=np.float32), rng.standard_normal(98432, dtype=np.float32)
    assert np.array_equal(copy(x), x)
    assert np.array_equal(add(x, y), x + y)
    print("copy, add: equal to numpy")


if __name__ == "__main__":
    main()
