"""Which dots on CPUs keep packed tiles of their right operand for later programs."""
import pytest

SOURCE = '''
import tegula
import tegula.language as tl


@tegula.jit
def k(a, b, c, M, N, K, FORM: tl.constexpr, BM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((BM, 64), tl.float32)
    for k in range(0, K, 64):
        d = k + tl.arange(0, 64)
        y = tl.load(b + d[:, None] * N + n[None, :], mask=(d[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(tl.load(a + m[:, None] * K + d[None, :], mask=d[None, :] < K, other=0.0), y, input_precision="ieee")
    if FORM == "writes b":
        tl.store(b + m[:, None] * N + n[None, :], acc)
    if FORM == "atomic":
        tl.atomic_add(c, 1.0)
    if FORM == "counter":
        acc += tl.atomic_add(c, 1.0)
    if FORM == "adds":
        tl.atomic_add(c + m[:, None] * N + n[None, :], acc)
    if FORM == "adds to b":
        tl.atomic_add(b + m[:, None] * N + n[None, :], acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)
'''


@pytest.mark.parametrize("form, rows, keeps", [("plain", 64, True), ("plain", 16, True), ("writes b", 64, False), ("atomic", 64, True), ("adds", 64, True), ("counter", 64, False),
                                               ("adds to b", 64, False)])
def test_tiles_are_kept(tegula, tmp_path, form, rows, keeps):
    """Where there are rows enough, and nothing may have changed what they were packed from."""
    (tmp_path / "t.py").write_text(SOURCE)
    p = tegula("compile", "t.py::k", "--sig", "a:*f32:16, b:*f32:16, c:*f32:16, M:i32:16, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-c", f"BM={rows}", "-t", "cpu:avx2", "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    assert ("kept for later programs" in p.stdout) == keeps, p.stdout


LEFT = '''
import tegula
import tegula.language as tl


@tegula.jit
def k(a, b, c, M, N, K, FORM: tl.constexpr):
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    n = tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        d = k + tl.arange(0, 64)
        x = tl.load(a + (m[:, None] * K + d[None, :] if FORM != "by columns" else m[:, None] + d[None, :] * M), mask=d[None, :] < K, other=0.0)
        y = tl.load(b + d[:, None] * N + n[None, :], mask=(d[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x if FORM != "computed" else x * 2, y, input_precision="tf32" if FORM == "tf32" else "ieee")
    if FORM == "writes a":
        tl.store(a + m[:, None] * N + n[None, :], acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)
'''


@pytest.mark.parametrize("form, keeps", [("by columns", True), ("tf32", True), ("computed", False), ("writes a", False)])
def test_tiles_of_the_left_operand_are_kept(tegula, tmp_path, form, keeps):
    """Of one that is copied, where nothing may have changed it."""
    (tmp_path / "t.py").write_text(LEFT)
    compiled = [tegula("compile", "t.py::k", "--sig", "a:*f32:16, b:*f32:16, c:*f32:16, M:i32:16, N:i32:16, K:i32:16", "-c", f"FORM='{form}'", "-t", "cpu:avx2", "--emit", e) for e in ("cpu", "llvm")]
    assert all(p.returncode == 0 for p in compiled), compiled
    assert ("kept if packed" in compiled[0].stdout) == keeps, compiled[0].stdout
    assert ("11400714819323198485" in compiled[1].stdout.replace("-7046029254386353131", "11400714819323198485")) == keeps, "the table of rows"
