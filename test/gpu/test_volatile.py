"""Volatile loads, which may give each thread another value, are done by one thread, which tells the others (gpu/shared/SharedNeeds.h)."""
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def wait(flag, out, VOLATILE: tl.constexpr):
    tl.store(flag + 1, 1)
    while tl.load(flag, volatile=VOLATILE) == 0:
        tl.store(out, 0)
    tl.store(out, 1)


@pytest.mark.parametrize("volatile", [True, False])
def test_one_thread_loads(volatile):
    x = np.zeros(4, np.int32)
    ptx = wait.warmup(x, x[2:].copy(), volatile, num_warps=4, grid=(1,), device="sim").compile_for("sm_90a").stage("ptx")
    lines = [line.strip() for line in ptx.splitlines()]
    loads = [line for line in lines if "ld." in line and ".global" in line]
    # By one thread (a predicate), put down for the others.
    assert all(line.startswith("@") == volatile for line in loads) and any("ld.shared" in line for line in lines) == volatile
