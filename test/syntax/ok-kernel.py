import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (64, 128)], key=["n"])
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, FAST: tl.constexpr = True):
    """Adds."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)[:, None]
    mask = (offsets < n) & ~(offsets == 3)
    acc = tl.zeros((BLOCK, 1), dtype=tl.float32)
    for k in tl.range(0, n, 16, num_stages=3):
        acc += tl.load(x_ptr + offsets, mask=mask, other=0.0) if FAST else -1.5e-3
    while pid > 0 and not FAST:
        pid -= 1
    tl.store(out_ptr + offsets, acc ** 2 // 1, mask=mask)
    tl.static_assert(BLOCK % 2 == 0, f"{BLOCK} is odd")
    return pid, *offsets.shape
