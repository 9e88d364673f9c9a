"""tegula.aot, load_bundle, no_jit, record: programs that compile nothing."""
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import _core

# What kernels reach in many ways: helpers, constants, modules, classes, closures.
PROGRAM = """
import collections, sys
import numpy as np
import tegula as triton
import tegula.language as tl
from tegula import _core
import helpers

SCALE = tl.constexpr(3)
Pair = collections.namedtuple("Pair", "x y")

@triton.jit
def twice(v):
    return v * 2

@triton.constexpr_function
def half(n):
    return n // 2

@triton.jit
def many(x, out, n, BLOCK: tl.constexpr, FN: tl.constexpr, ACT: tl.constexpr = "relu"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = FN(tl.load(x + i, mask=i < n)) * SCALE + half(BLOCK) + helpers.offset(v=1.0) + helpers.CONST
    if ACT == "relu":
        v = tl.maximum(v, 0)
    tl.store(out + i, v + tl.sum(v * 0, 0), mask=i < n)

@triton.jit
def pairs(p, out):
    tl.store(out + tl.arange(0, 4), tl.load(p.x + tl.arange(0, 4)) * p.y)

@triton.aggregate
class Acc:
    a: tl.tensor
    b: tl.constexpr

    @triton.constexpr_function
    def __init__(self, a, b):
        self.a = a
        self.b = tl.constexpr(b)

    @triton.jit
    def get(self):
        return self.a * self.b

@triton.jit
def grouped(x, out):
    acc = Acc(tl.load(x + tl.arange(0, 4)), 5)
    tl.store(out + tl.arange(0, 4), acc.get())

def make(k):
    @triton.jit
    def inner(x, K: tl.constexpr = k):
        tl.store(x, tl.load(x) + K)
    return inner

x = np.arange(100, dtype=np.float32)
for n in (100, 96, 1):
    out = np.zeros(100, np.float32)
    many[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64, FN=twice)
    expected = np.zeros(100, np.float32)
    expected[:n] = np.maximum(x[:n] * 2 * 3 + 32 + 1.5 + 7, 0)
    assert np.array_equal(out, expected), (n, out)
out = np.zeros(4, np.float32)
pairs[(1,)](Pair(x, 3), out)
assert list(out) == [0, 3, 6, 9]
grouped[(1,)](x, out)
assert list(out) == [0, 5, 10, 15]
make(2)[(1,)](x)
make(4)[(1,)](x)
assert x[0] == 6
print("compiles", _core.compile_count())
"""
HELPERS = """
import tegula as triton
import tegula.language as tl
CONST = tl.constexpr(7)

@triton.jit
def offset(v):
    return v * 1.5
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helpers.py").write_text(HELPERS)
    return tmp_path


def run(folder, *args, **env):
    p = subprocess.run([sys.executable, *map(str, args)], cwd=folder, text=True, capture_output=True, timeout=300, env={**os.environ, "TEGULA_CACHE_DIR": "", **env})
    return p


def good(folder, *args, **env):
    p = run(folder, *args, **env)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


def test_a_recorded_program_compiles_nothing(program):
    """Whatever a kernel reaches is in the manifest; a bundle of it serves the next run, in another folder, in two processes at once."""
    out = good(program, "program.py", TEGULA_RECORD="rec.json")
    assert int(out.split()[-1]) >= 6
    recorded = json.loads((program / "rec.json").read_text())
    assert all("problem" not in k for p in recorded["programs"] for k in p["kernels"]), recorded
    good(program, "-c", "import tegula; tegula.aot('rec.json', 'rec.tgb', classes='given'); assert tegula.aot('rec.json', check='rec.tgb', classes='given') == []")
    other = program / "elsewhere"
    other.mkdir()
    for name in ("program.py", "helpers.py"):
        (other / name).write_text((program / name).read_text())
    both = [subprocess.Popen([sys.executable, "program.py"], cwd=other, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "TEGULA_CACHE_DIR": "", "TEGULA_CACHE_LAYERS": str(program / "rec.tgb"), "TEGULA_NO_JIT": "1"}) for _ in range(2)]
    for p in both:
        out, err = p.communicate(timeout=300)
        assert p.returncode == 0 and out.split()[-2:] == ["compiles", "0"], out + err
    # A helper that changed is another kernel.
    (other / "helpers.py").write_text(HELPERS.replace("1.5", "2.5"))
    p = run(other, "program.py", TEGULA_CACHE_LAYERS=str(program / "rec.tgb"), TEGULA_NO_JIT="1")
    assert p.returncode and "RuntimeError: not compiled: `many` is not compiled ahead of time" in p.stderr and "is of another source" in p.stderr, p.stderr


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


KERNEL = textwrap.dedent("""
    import sys
    import numpy as np
    import tegula
    import tegula.language as tl
    from tegula import _core

    @tegula.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

    def launch(n, BLOCK=64):
        x = np.ones(n, np.float32)
        out = np.zeros(n, np.float32)
        add[(tegula.cdiv(n, BLOCK),)](x, x, out, n, BLOCK=BLOCK)
        assert (out == 2).all()
""")


def test_aot_load_no_jit(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    good(tmp_path, "-c", "from k import *; print(tegula.aot([(add, 'x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32:16', {'BLOCK': 64})], 'k.tgb', header='k.hpp'))")
    assert "k_add" in (tmp_path / "k.hpp").read_text()
    out = good(tmp_path, "-c", """if True:
        from k import *
        from tegula import _core
        tegula.load_bundle("k.tgb")
        with tegula.no_jit():
            launch(64), launch(100), launch(1)  # the last two by the entry that relies on nothing
            for n in (64, 100, 1):
                x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
                handle = add.bind(x, x, out, n, BLOCK=64, grid=(tegula.cdiv(n, 64),))
                handle(x, x, out, n)
                assert (out == 2).all()
            try:
                launch(64, BLOCK=32)
                raise SystemExit("compiled")
            except RuntimeError as e:
                print(e)
        assert _core.compile_count() == 0
        launch(64, BLOCK=32)
        assert _core.compile_count() == 1 and _core.no_jit() == 0
        tegula.no_jit("warn")
        launch(64, BLOCK=16)
        print(_core.compile_count())""")
    assert "BLOCK:64 for 32" in out and out.split()[-1] == "2"


def test_loops_that_a_grid_splits(tmp_path):
    """split="auto": the forms for grids that leave multiprocessors idle are there without having been recorded."""
    (tmp_path / "s.py").write_text(textwrap.dedent("""
        import numpy as np
        import tegula
        import tegula.language as tl

        @tegula.jit
        def sums(x, out, n, B: tl.constexpr):
            pid, i = tl.program_id(0), tl.arange(0, B)
            acc = tl.zeros([B], tl.float32)
            for k in tl.range(0, n, split="auto"):
                acc += tl.load(x + (pid * n + k) * B + i)
            tl.store(out + pid * B + i, acc)
    """))
    good(tmp_path, "-c", "from s import *; print(tegula.aot([(sums, 'x:*fp32:16, out:*fp32:16, n:i32:16', {'B': 64})], 's.tgb', targets=['sim', 'cpu:x86-64']))")
    out = good(tmp_path, "-c", """if True:
        from s import *
        from tegula import _core
        tegula.load_bundle("s.tgb")
        tegula.no_jit()
        for programs in (1, 20, 60, 100):
            x, out = np.arange(programs * 16 * 64, dtype=np.float32) % 31, np.zeros(programs * 64, np.float32)
            kernel = sums[(programs,)](x, out, 16, B=64, device="sim")
            assert (out.reshape(programs, 64) == x.reshape(programs, 16, 64).sum(1)).all()
            handle = sums.bind(x, out, 16, B=64, grid=(programs,), device="sim")
            out[:] = 0
            handle(x, out, 16)
            assert (out.reshape(programs, 64) == x.reshape(programs, 16, 64).sum(1)).all()
            print(kernel.info()["cluster_ctas"], end=" ")
        print(_core.compile_count())""")
    assert out.split() == ["8", "4", "2", "1", "0"]


def test_null_pointers_and_one_buffer(tmp_path):
    """Nothing that launches ask for is missing: an entry that relies on less stands in, or all classes are there."""
    (tmp_path / "k.py").write_text(KERNEL + """
class Null:  # a tensor without elements, as libraries give it
    dtype = np.dtype(np.float32)
    shape, strides, nbytes = (0,), (1,), 0
    def data_ptr(self):
        return 0
    def numel(self):
        return 0
    def element_size(self):
        return 4

def launches():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    for args in ((x, x, x), (x, out, out), (Null(), Null(), Null()), (x, Null(), out)):
        for n in (0, 64, 1):
            try:
                add[(1,)](*args, n, BLOCK=64)
            except RuntimeError as e:  # followed, which is no crash
                assert "out-of-bounds load through argument" in str(e), e
                assert n and isinstance(args[1], Null)
            else:
                assert not n or not isinstance(args[1], Null)
""")
    signature = "(add, 'x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32:16', {'BLOCK': 64})"
    for classes, jit in (("generic", "tegula.no_jit()"), ("all", "None")):
        good(tmp_path, "-c", f"from k import *; print(tegula.aot([{signature}], 'k.tgb', classes='{classes}'))")
        out = good(tmp_path, "-c", f"from k import *; from tegula import _core; tegula.load_bundle('k.tgb'); {jit}; launches(); print(_core.compile_count())")
        assert out.split()[-1] == "0"


def test_nearest_entries_are_named_once(tmp_path):
    """The forms of an entry for large tensors and for null pointers have its signature."""
    (tmp_path / "k.py").write_text(KERNEL)
    good(tmp_path, "-c", "from k import *; tegula.aot([(add, 'x:*fp32:16, y:*fp32:16, out:*fp32:16, n:i32:16', {'BLOCK': 64})], 'k.tgb', classes='generic')")
    out = good(tmp_path, "-c", """
from k import *
tegula.load_bundle("k.tgb")
tegula.no_jit()
x, y, out = (np.zeros(64, np.float32) for _ in range(3))
try:
    add[(1,)](x, y, out, 64, BLOCK=32)
except RuntimeError as e:
    print(e)
""")
    lines = [line for line in out.splitlines() if " in k.tgb has " in line]
    assert lines and len(lines) == len(set(lines)), out


def test_a_manifest_of_files_serves_python(tmp_path):
    """A kernel is the same by name and in Python: annotations, globals, helpers of its file and others, blank lines."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "k.py").write_text(textwrap.dedent("""
        import tegula
        import tegula.language as tl
        from helpers import CONST, offset as by
        SCALE = tl.constexpr(3)

        @tegula.jit
        def twice(v):
            return v * 2

        @tegula.jit
        def k(x: "*fp32", y, n: tl.int32, a, BLOCK: tl.constexpr, FAST: tl.constexpr = True):
            i = tl.arange(0, BLOCK)
            if FAST:
                tl.store(x + i, by(twice(tl.load(x + i, mask=i < n))) * SCALE + CONST + a, mask=i < n)


        @tegula.jit
        def plain(x):
            tl.store(x, 1)
        """))
    (tmp_path / "m.json").write_text(json.dumps({"tegula_manifest": 1, "kernels": [{"source": "k.py", "kernel": "plain", "signature": "x:*fp32:16"}, {
        "source": "k.py", "kernel": "k", "signature": "x:*fp32:16, y:*fp32:16, n:i32, a:fp32", "constants": {"BLOCK": 64}}]}))
    good(tmp_path, "-c", "import tegula; tegula.aot('m.json', 'm.tgb')")
    good(tmp_path, "-c", """if True:
        import numpy as np, tegula, k
        tegula.load_bundle("m.tgb")
        x = np.ones(64, np.float32)
        with tegula.no_jit():
            k.k[(1,)](x, np.ones(64, np.float32), 60, 0.5, BLOCK=64)
            assert (x[:60] == 2 * 1.5 * 3 + 7 + 0.5).all() and (x[60:] == 1).all(), x
            k.plain[(1,)](np.ones(64, np.float32))""")


def test_left_out(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    good(tmp_path, "-c", "from k import *; launch(64)", TEGULA_RECORD="rec.json")
    with pytest.warns(UserWarning, match="1 kernel recorded for cpu:.*no target that is asked for is of that kind"):
        assert tegula.aot(tmp_path / "rec.json", tmp_path / "x.tgb", targets="sm_80", classes="given") == 0
    assert tegula.aot(tmp_path / "rec.json", tmp_path / "x.tgb", targets="sm_80", classes="given", any_target=True) == 1


def test_wrong_calls(tmp_path):
    with pytest.raises(ValueError, match="classes is 'some'"):
        tegula.aot([], "x.tgb", classes="some")
    with pytest.raises(ValueError, match="needs an output"):
        tegula.aot([])
    with pytest.raises(TypeError, match="@jit"):
        tegula.aot([(len, "x:i32")], tmp_path / "x.tgb")
    with pytest.raises(ValueError, match="has no `blok`"):
        tegula.aot([dict(kernel=add, blok=1)], tmp_path / "x.tgb")
    with pytest.raises(LookupError, match="there is no target `cpu:z80`"):
        tegula.aot([(add, "x:*fp32, y:*fp32, out:*fp32, n:i32", {"BLOCK": 4})], tmp_path / "x.tgb", targets="cpu:z80")
    with pytest.raises(LookupError, match="nowhere.tgb cannot be opened"):
        tegula.load_bundle(tmp_path / "nowhere.tgb")
    with pytest.raises(ValueError, match="no_jit takes"):
        tegula.no_jit("perhaps")
    assert _core.no_jit() == 0
    (tmp_path / "key").write_text("12\n")
    with pytest.raises(ValueError, match="is no key"):
        tegula.aot([], tmp_path / "x.tgb", key=tmp_path / "key")


def test_empty_bundle(tmp_path):
    assert tegula.aot([], tmp_path / "x.tgb") == 0
    tegula.load_bundle(tmp_path / "x.tgb")
    x = np.ones(8, np.float32)
    add[(1,)](x, x, x, 8, BLOCK=8)
    assert (x == 2).all()


def test_verify_of_a_kernel_that_prints(tmp_path):
    """Threads of the runtime print by Python while the caller waits for both devices."""
    (tmp_path / "k.py").write_text("""
import numpy as np, tegula
import tegula.language as tl

@tegula.jit
def says(out):
    tl.device_print("v", tl.arange(0, 4))
    tl.store(out + tl.arange(0, 4), 1.0)
""")
    out = good(tmp_path, "-c", "from k import *; print(says.verify((2,), (np.zeros(4, np.float32),), {}))")
    assert out.count("v: 3") == 4 and out.split()[-1] == "=", out
