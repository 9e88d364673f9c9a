"""triton._filecheck, and the marks of triton.profiler.language."""
import numpy as np
import pytest
import tegula
import tegula.language as tl
import tegula.profiler.language as pl
from tegula._filecheck import _tool, filecheck_test, run_filecheck, run_filecheck_test, run_parser
from tegula.backends.compiler import GPUTarget


def has_filecheck():
    try:
        return bool(_tool())
    except FileNotFoundError:
        return False


needs_filecheck = pytest.mark.skipif(not has_filecheck(), reason="LLVM's FileCheck is not here")


@needs_filecheck
@filecheck_test
@tegula.jit
def test_a_kernel_checks_itself():
    # CHECK: kernel @test_a_kernel_checks_itself
    # CHECK-NOT: load
    x = tl.program_id(0)
    # CHECK: program_id
    tl.device_assert(x >= 0)
    tl.device_print("x", x)
    # CHECK-NEXT: {{.*}}print


@tegula.jit
def wrong():
    # CHECK: no such operation
    tl.device_print("x", tl.program_id(0))


@tegula.jit
def double(x, N: tl.constexpr):
    # CHECK: load
    # CHECK: store
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) * 2)


@needs_filecheck
def test_kernels_with_arguments():
    run_filecheck_test(double, (tl.float32, 8))
    run_filecheck_test(double, (np.zeros(8, np.float32), ), {"N": 8}, GPUTarget("cuda", 90, 32))
    with pytest.raises(tegula.CompilationError):
        run_parser(double, (tl.float32, 0))
    with pytest.raises(TypeError, match="a jit function is needed, found int"):
        run_parser(3)


@needs_filecheck
def test_what_fails():
    with pytest.raises(ValueError, match="CHECK: expected string not found"):
        run_filecheck_test(wrong)
    with pytest.raises(ValueError, match="no check strings found"):
        run_filecheck("empty", str(run_parser(wrong)), "nothing")


@tegula.jit
def marked(x, n, WRONG: tl.constexpr):
    pl.enter_scope("all")
    event = pl.allocate_event("loop")
    with pl.scope("body"):
        for i in range(n):
            pl.start_event(event)
            tl.store(x + i, i)
            pl.end_event(event)
    pl.exit_scope("all")
    if WRONG:
        pl.end_event(n)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_marks_are_nothing(device):
    x = np.zeros(4, np.int32)
    marked[(1, )](x, 4, False, device=device)
    assert list(x) == [0, 1, 2, 3]
    with tegula.interpret():
        marked[(1, )](x, 2, False)
    with pytest.raises(tegula.CompilationError, match="expected an event returned by allocate_event"):
        marked[(1, )](x, 4, True, device=device)
    pl.enable_semantic("triton")
    pl.disable_semantic("triton")
    with pytest.raises(ValueError, match="'triton' or 'gluon'"):
        pl.enable_semantic("cuda")
