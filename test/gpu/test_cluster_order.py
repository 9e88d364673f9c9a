"""Global memory in program order between the CTAs of a cluster, where dots read it by copies that stand where their loads stood (MemoryOrder.h, orderCopy)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def accumulate(x, y, out, stride):
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 32)[None, :]
    total = tl.zeros([16, 32], tl.float32)
    for i in tl.range(0, 4, num_stages=3):
        total = tl.dot(tl.load(x + i * 32 + rows * stride + columns), tl.load(y + tl.arange(0, 32)[:, None] * stride + columns), acc=total)
        tl.store(out + i * 512 + rows * 32 + columns, (total.to(tl.int32) & 7).to(tl.float16))


@pytest.mark.parametrize("ctas", [1, 2])
def test_copies_read_what_other_ctas_stored_in_the_iteration_before(ctas):
    rng = np.random.default_rng(1)
    y, memory = rng.integers(-8, 8, 1024).astype(np.float16), rng.integers(-8, 8, 4096).astype(np.float16)
    expected, total = memory.astype(np.float32), np.zeros((16, 32), np.float32)
    for i in range(4):
        total += expected[i * 32:i * 32 + 512].reshape(16, 32) @ y.astype(np.float32).reshape(32, 32)
        expected[1 + i * 512:513 + i * 512] = (total.astype(np.int32) & 7).reshape(-1)
    accumulate[(1,)](memory, y, memory[1:], 32, num_ctas=ctas, device="sim")  # `out` overlaps `x`
    np.testing.assert_array_equal(memory, expected)
