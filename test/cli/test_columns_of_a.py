"""Which dots on CPUs pack their left operand column by column."""
import pytest

SOURCE = '''
import tegula
import tegula.language as tl


@tegula.jit
def k(a, b, c, M, N, K, am, ak, BN: tl.constexpr, WRAPS: tl.constexpr):
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    if WRAPS:
        r = m % M
    else:
        r = m
    acc = tl.zeros((64, BN), tl.float32)
    for k in range(0, K, 64):
        d = k + tl.arange(0, 64)
        x = tl.load(a + r[:, None] * am + d[None, :] * ak, mask=d[None, :] < K, other=0.0)
        y = tl.load(b + d[:, None] * N + n[None, :], mask=d[:, None] < K, other=0.0)
        acc += tl.dot(x.to(y.dtype), y)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)
'''


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512", "cpu:aarch64"])
@pytest.mark.parametrize("am, ak, element, columns", [("1", "i32:16", "f32", True), ("i32:16", "1", "f32", False), ("1", "i32", "f16", True), ("i32", "i32", "f32", False), ("1", "1", "f32", False)])
def test_transposed_operands_are_packed_by_columns(tegula, tmp_path, am, ak, element, columns, target, wraps):
    (tmp_path / "t.py").write_text(SOURCE)
    p = tegula("compile", "t.py::k", "--sig", f"a:*{element}:16, b:*f32:16, c:*f32:16, M:i32, N:i32:16, K:i32:16, am:{am}, ak:{ak}", "-c", "BN=64", "-c", f"WRAPS={wraps}", "-t", target, "--emit", "cpu")
    assert p.returncode == 0, p.stderr
    assert ("A by columns" in p.stdout) == columns, p.stdout


def test_rows_of_groups_stay_rows(tegula, tmp_path):
    """Pairs of k are multiplied by one instruction: they lie side by side."""
    (tmp_path / "t.py").write_text(SOURCE)
    p = tegula("compile", "t.py::k", "--sig", "a:*bf16:16, b:*bf16:16, c:*f32:16, M:i32, N:i32:16, K:i32:16, am:1, ak:i32", "-c", "BN=64", "-c", "WRAPS=False", "-t", "cpu:avx512bf16", "--emit", "cpu")
    if p.returncode == 0:
        assert "A by columns" not in p.stdout, p.stdout
