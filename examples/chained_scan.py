"""Running sums of a long vector in one pass: each program waits for the sum that the one before it has published.

Programs draw their places from a counter, so that whoever waits, waits for one that has begun."""
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def scan_kernel(x, out, sums, ready, ticket, n, BLOCK: tl.constexpr):
    place = tl.atomic_add(ticket, 1)
    i = place * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    before = tl.zeros([], x.dtype.element_ty)
    if place > 0:
        tl.atomic_poll(ready + place - 1, 1)
        before = tl.load(sums + place - 1)
    tl.store(sums + place, before + tl.sum(v))
    tl.debug_barrier()
    tl.atomic_store(ready + place, 1)
    tl.store(out + i, before + tl.cumsum(v), mask=i < n)


def running_sums(x, block=1024):
    blocks = tegula.cdiv(x.size, block)
    out, sums = np.empty_like(x), np.empty(blocks, x.dtype)
    ready, ticket = np.zeros(blocks, np.int32), np.zeros(1, np.int32)
    scan_kernel[(blocks,)](x, out, sums, ready, ticket, x.size, BLOCK=block)
    return out


def main():
    x = np.random.default_rng(0).integers(-1000, 1000, 1_000_003, dtype=np.int64)
    assert np.array_equal(running_sums(x), np.cumsum(x))
    print(f"running sums of {x.size} numbers in one pass: equal to numpy")


if __name__ == "__main__":
    main()
