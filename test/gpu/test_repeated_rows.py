"""Rows that stand for all elements of a block: pointers and masks are made of them in the layout of the accesses, and go through no shared memory (layouts/HoistConverts.h)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def softmax_of_blocks(index, x, row, stride, BLOCKS: tl.constexpr, SIZE: tl.constexpr):
    """One row of blocks that lie anywhere, in place."""
    at = tl.load(index + tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS))
    each = tl.reshape(tl.broadcast_to(at[:, None], (BLOCKS, SIZE)), (BLOCKS * SIZE, ))
    offsets = each * stride + row * SIZE + tl.arange(0, BLOCKS * SIZE) % SIZE
    v = tl.load(x + offsets, mask=each != -1, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(x + offsets, e / tl.sum(e, 0), mask=each != -1)


@pytest.mark.parametrize("blocks, size, warps", [(64, 64, 8), (64, 64, 4), (16, 64, 4), (32, 16, 2)])
def test_pointers_of_blocks(blocks, size, warps):
    index, x = np.zeros(blocks, np.int32), np.zeros(4 * blocks * size, np.float32)
    kernel = softmax_of_blocks.warmup(index, x, 2, blocks * size, blocks, size, num_warps=warps, grid=(1, ), device="sim").compile_for("sm_90a")
    assert kernel.metadata.shared <= 4 * blocks  # the indices; pointers would be 8 bytes an element
