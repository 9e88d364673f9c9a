"""Which kernels run neighbouring programs as lanes of vectors on CPUs (targets/cpu/rewrite/ProgramsAsLanes.h), and the remark about it."""
import pytest


COLUMNS = """
import tegula
import tegula.language as tl

@tegula.jit
def k(x, y, out, n, K, FORM: tl.constexpr, B: tl.constexpr):
    if FORM == "y":
        m, k = tl.program_id(0), tl.program_id(1)
    elif FORM == "quotient":
        m, k = tl.program_id(0) // K, tl.program_id(0) % K
    else:
        k, m = tl.program_id(0), tl.program_id(1)
    if FORM == "wide":
        k = k.to(tl.int64)
    r = tl.arange(0, B)
    base = m * n * K + k
    acc = tl.zeros([B], tl.float32)
    s = 0.0
    for i in range(0, k if FORM == "ragged" else n, B):
        if FORM == "rows":
            at = k * n + i + r
        elif FORM == "windows":
            at = k + i + r
        else:
            at = base + (i + r) * K
        v = tl.load(x + at, mask=i + r < n, other=0, volatile=FORM == "volatile")
        if FORM == "shared":
            v += tl.load(y + i + r, mask=i + r < n, other=0)
        elif FORM == "gathered":
            v += tl.load(y + tl.load(y.to(tl.pointer_type(tl.int32)) + at))
        elif FORM == "while":
            while s < 3:
                s += 1
        elif FORM == "print":
            tl.device_print("v", v)
        elif FORM == "assert":
            tl.device_assert(v > 0)
        acc += v
    if FORM == "branch":
        if k > 3:
            acc += 1
    if FORM == "once":
        tl.store(out, k)
    if FORM == "atomic":
        tl.atomic_add(out + m * K + k, tl.sum(acc, 0) + s)
    elif FORM == "scan":
        tl.store(out + base + r * K, tl.cumsum(acc, 0), mask=r < n)
    else:
        tl.store(out + m * K + k, tl.sum(acc, 0) + s)
"""


@pytest.mark.parametrize("form, axis", [("x", "x"), ("y", "y"), ("quotient", "x"), ("wide", "x"), ("shared", "x"), ("scan", "x")] +
                         [(form, None) for form in ("ragged", "rows", "windows", "volatile", "gathered", "while", "print", "assert", "branch", "once", "atomic")])
def test_programs_run_as_lanes(tegula, tmp_path, form, axis):
    """Where each reads elements that are apart, and the next one those beside them; a remark says so."""
    (tmp_path / "t.py").write_text(COLUMNS)
    args = ("t.py::k", "--sig", "x:*f32:16, y:*f32:16, out:*f32:16, n:i32, K:i32", "-c", f"FORM='{form}'", "-c", "B=64", "-t", "cpu:avx2")
    p = tegula("compile", *args, "--emit", "cpu", *(("--debug",) if form == "assert" else ()))
    assert p.returncode == 0 and (", 8 programs as lanes" in p.stdout) == bool(axis), p.stdout + p.stderr
    p = tegula("compile", *args, "--remarks", *(("--debug",) if form == "assert" else ()))
    assert (f"up to 8 programs next to one another along {axis} run as lanes of vectors: the elements of this load lie beside those of the next program" in p.stderr) == bool(axis), p.stderr
    # Nothing is gathered or done lane by lane but in the copy for few programs.
    text = tegula("compile", *args, "--emit", "llvm", *(("--debug",) if form == "assert" else ())).stdout
    assert ("%programs.as.lanes = select" in text) == bool(axis)
