"""The interpreter (tegula.interpret(), TRITON_INTERPRET=1): Python runs the function of a kernel, with the compiler's values."""
import bdb
import importlib
import io
import os
import pdb
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)
    b = tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, a + b, mask=mask)


def arrays(n, dtype=np.float32):
    return np.arange(n).astype(dtype), np.full(n, 10).astype(dtype), np.zeros(n, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, np.uint64])
def test_add(dtype):
    x, y, out = arrays(37, dtype)
    with tegula.interpret():
        assert add[lambda meta: (tegula.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, 37, BLOCK=16) is None
    compiled = np.zeros_like(out)
    add[(3,)](x, y, compiled, 37, BLOCK=16)
    assert (out == compiled).all() and (out == x + y).all()


def test_switch():
    calls = []

    @tegula.jit
    def kernel(x):
        note()
        tl.store(x, 1)

    def note():
        calls.append(1)

    x = np.zeros(1, np.int32)
    with tegula.interpret():
        kernel[(2,)](x)
        with tegula.interpret(False), pytest.raises(tegula.CompilationError):
            kernel[(2,)](x)  # an undecorated helper is nothing a kernel can call
    assert len(calls) == 2
    tegula.interpret()
    try:
        kernel[(1,)](x)
    finally:
        tegula.interpret(False)
    assert len(calls) == 3


def test_prints(capsys):

    def print_if(text, condition):
        """`pid_0 = 1,pid_1 > 2`"""
        ids = {f"pid_{i}": int(tl.program_id(i)) for i in range(3)}
        if all(eval(c.replace(" = ", " == "), {}, ids) for c in condition.split(",")):
            print(text)

    @tegula.jit
    def kernel(x, n):
        offsets = tl.arange(0, 4)
        v = tl.load(x + offsets)
        print_if(f"{v}, {v.dtype}, {v.shape}, {n}", "pid_0 = 1,pid_1 > 2")

    with tegula.interpret():
        kernel[(2, 5)](np.arange(4, dtype=np.float16), 7)
    assert capsys.readouterr().out == "[0. 1. 2. 3.], fp16, (4,), [7]\n" * 2


def test_order_of_programs():
    seen = []

    def note(*ids):
        seen.append(tuple(map(int, ids)))

    @tegula.jit
    def kernel():
        note(tl.program_id(0), tl.program_id(1), tl.program_id(2))

    with tegula.interpret():
        kernel[(2, 2, 2)]()
    assert seen == [(x, y, z) for x in range(2) for y in range(2) for z in range(2)]


def test_debugger():
    """A debugger stops at the kernel's own lines, and sees its variables."""
    out, shown = np.zeros(4, np.int32), io.StringIO()

    @tegula.jit
    def kernel(out):
        doubled = tl.arange(0, 4) * 2
        debugger.set_trace()
        tl.store(out + tl.arange(0, 4), doubled)

    debugger = pdb.Pdb(stdin=io.StringIO("p doubled\nn\nwhere\nc\n"), stdout=shown, nosigint=True, readrc=False)
    with tegula.interpret():
        kernel[(1,)](out)
    text = shown.getvalue()
    assert "tensor([0, 2, 4, 6], i32)" in text and "-> tl.store(out + tl.arange(0, 4), doubled)" in text and "test_interpreter.py(" in text
    assert out.tolist() == [0, 2, 4, 6]
    debugger = pdb.Pdb(stdin=io.StringIO("q\n"), stdout=shown, nosigint=True, readrc=False)
    with tegula.interpret(), pytest.raises(bdb.BdbQuit):
        kernel[(1,)](out)


def test_errors_are_the_compilers():

    @tegula.jit
    def kernel(x):
        tl.arange(0, 4) + tl.arange(0, 8)

    for on in (True, False):
        with tegula.interpret(on), pytest.raises(tegula.TegulaError) as e:
            kernel[(1,)](np.zeros(1, np.int32))
        cause = e.value.__cause__ if on else e.value
        assert type(cause) is tegula.CompilationError and cause.kind == "incompatibleShapes"
        assert isinstance(e.value, tegula.InterpreterError) == on


def test_errors_say_where():

    @tegula.jit
    def inner(x):
        if x is not None:
            return x + tl.arange(0, 8)  # ä

    def helper(x):
        return "ä" + inner(x).nothing

    @tegula.jit
    def kernel(x, n: tl.constexpr):
        if n == 0:
            tl.store(x, tl.arange(0, 4) + tl.arange(0, 8))
        elif n == 1:
            inner(tl.arange(0, 4))
        elif n == 2:
            tl.store(x + 2 *
                     100, 1)
        elif n == 3:
            helper(tl.arange(0, 8))

    lines = open(__file__, encoding="utf-8").read().splitlines()
    for n, text in enumerate(["tl.arange(0, 4) + tl.arange(0, 8)", "x + tl.arange(0, 8)", "tl.store(x + 2 *", "inner(x).nothing"]):
        with tegula.interpret(), pytest.raises(tegula.InterpreterError) as e:
            kernel[(1,)](np.zeros(1, np.int32), n)
        said = str(e.value).splitlines()[-3:] if hasattr(helper.__code__, "co_positions") else str(e.value).splitlines()[-2:]
        file, line, *column = said[0].removesuffix(":").rsplit(":", 2 if len(said) == 3 else 1)
        assert file == __file__ and text in lines[int(line) - 1] and said[1] == f"{int(line):4} | {lines[int(line) - 1]}"
        if column:
            begin = lines[int(line) - 1].index(text)
            assert int(column[0]) == begin + 1 and said[2] == "     | " + " " * begin + "^" + "~" * (len(text) - 1)


def test_strict_refuses_what_compiled_kernels_refuse():

    @tegula.jit
    def kernel(x):
        tl.store(x, tl.arange(0, 4)[3])

    x = np.zeros(1, np.int32)
    with tegula.interpret():
        kernel[(1,)](x)
        assert x[0] == 3
        with pytest.raises(tegula.InterpreterError, match="badIndex"):
            kernel[(1,)](x, strict=True)
    with pytest.raises(tegula.CompilationError, match="badIndex"):
        kernel[(1,)](x, strict=True)


@tegula.jit
def breaks(x, n, FLAG: tl.constexpr):
    for i in range(n):
        if i == 1:
            break
        tl.store(x, i)


@tegula.jit
def continues(x, n, FLAG: tl.constexpr):
    for i in tl.static_range(3):
        if n > 5:  # not so
            continue
        tl.store(x, i)


@tegula.jit
def returns(x, n, FLAG: tl.constexpr):
    while n > 0:
        n -= 1
        if n == 7:
            return
    tl.store(x, 1)


@tegula.jit
def finishes(x, n, FLAG: tl.constexpr):
    for i in range(n):
        tl.store(x, i)
    else:
        tl.store(x, 9)


@tegula.jit
def prunes(x, n, FLAG: tl.constexpr):
    for i in range(n):
        if FLAG:
            break
        tl.store(x, i)
    for i in tl.static_range(3):
        if FLAG:
            tl.store(x, 8)
        else:
            return


@pytest.mark.parametrize("kernel, kind, text", [(breaks, "unsupportedStmt", "Break"), (continues, "unsupportedStmt", "Continue"),
                                                (returns, "returnInLoop", "Cannot have `return`"), (finishes, "loopElse", "`for` with `else`")])
def test_strict_statements(kernel, kind, text):
    x = np.zeros(1, np.int32)
    with pytest.raises(tegula.CompilationError) as compiled:
        kernel[(1,)](x, 3, False, strict=True)
    with tegula.interpret(), pytest.raises(tegula.InterpreterError) as interpreted:
        kernel[(1,)](x, 3, False, strict=True)
    cause = interpreted.value.__cause__
    assert (compiled.value.kind, compiled.value.message) == (cause.kind, cause.message) and cause.kind == kind and text in cause.message
    at = compiled.value.line  # an exit that its `if` did not take is shown at the `if`
    assert any(f"{__file__}:{line}" in str(interpreted.value) for line in (at, at - 1))


@pytest.mark.parametrize("kernel, options", [(k, {}) for k in (breaks, continues, returns, finishes, prunes)] + [(prunes, {"strict": True})])
def test_loops_end_as_compiled_ones(kernel, options):
    compiled, interpreted = np.zeros((2, 1), np.int32)
    kernel[(1,)](compiled, 3, False, **options)
    with tegula.interpret():
        kernel[(1,)](interpreted, 3, False, **options)
    assert compiled[0] == interpreted[0]


@pytest.mark.parametrize("precision", ["tf32", "ieee", "tf32x3", "bf16x3"])
def test_dots_read_what_compiled_ones_read(precision):

    @tegula.jit
    def kernel(a, b, c, K: tl.constexpr, PRECISION: tl.constexpr):
        rows, inner = tl.arange(0, 16)[:, None], tl.arange(0, K)
        x = tl.load(a + rows * K + inner[None, :])
        y = tl.load(b + inner[:, None] * 16 + tl.arange(0, 16)[None, :])
        tl.store(c + rows * 16 + tl.arange(0, 16)[None, :], tl.dot(x, y, input_precision=PRECISION))

    # One product of each sum is not 0, so that it is exact but for its own rounding.
    k, rng = 16, np.random.default_rng(3)
    a = np.diag(rng.standard_normal(k, np.float32))
    b = rng.standard_normal((k, 16), np.float32)
    a[3, 3], a[4, 4] = np.inf, np.uint32(0x7f800001).view(np.float32)
    found = []
    for interpreted in (False, True):
        c = np.zeros((16, 16), np.float32)
        with tegula.interpret(interpreted):
            kernel[(1,)](a, b, c, k, precision)
        found.append(np.where(np.isnan(c), 7, c))
    assert (found[0].view(np.uint32) == found[1].view(np.uint32)).all()
    cut = lambda x: (x.view(np.uint32) & 0xffffe000).view(np.float32)
    row = cut(a[0, :1]) * cut(b[0]) if precision == "tf32" else a[0, 0] * b[0]
    assert (found[1][0] == row).all()


def test_products_are_rounded_before_sums():
    """Compiled code may round `x * y + z` once (enable_fp_fusion), where and if the target has such an instruction; the interpreter does as without it."""

    @tegula.jit
    def kernel(x, y, z, out):
        i = tl.arange(0, 1024)
        tl.store(out + i, tl.load(x + i) * tl.load(y + i) + tl.load(z + i))

    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 1024)).astype(np.float32)
    z = -(x * y) * np.float32(1.0000001)  # much is cancelled
    once = (x.astype(np.float64) * y + z).astype(np.float32)
    plain, default, eager = np.zeros((3, 1024), np.float32)
    kernel[(1,)](x, y, z, plain, enable_fp_fusion=False)
    kernel[(1,)](x, y, z, default)
    with tegula.interpret():
        kernel[(1,)](x, y, z, eager)
    assert (eager == x * y + z).all() and (eager == plain).all() and (eager != once).any()
    assert ((default == once) | (default == eager)).all()


class Storage:
    """Memory of a GPU that the CPU may not touch: what is read or written there must have been copied."""

    def __init__(self, array):
        self.array = array

    def nbytes(self):
        return self.array.nbytes

    def data_ptr(self):
        return 0x7f0000000000 + id(self.array) % (1 << 20) * 16

    def cpu(self):
        return Copied(self.array.copy())

    def copy_(self, other):
        self.array[...] = other.array


class Copied(Storage):
    def data_ptr(self):
        return self.array.ctypes.data


class Device:
    type, index = "cuda", 0


class Whole(Storage):
    """A tensor of a GPU as PyTorch's, without a storage that it could be a part of."""
    device, shape = Device(), (8,)

    def __init__(self, array):
        super().__init__(array)
        self.dtype, self.nbytes = array.dtype, array.nbytes

    def cpu(self):
        copy = Whole(self.array.copy())
        copy.data_ptr = lambda: copy.array.ctypes.data
        return copy


class Part:
    device = Device()

    def __init__(self, storage, begin, count):
        self.storage, self.begin, self.dtype = storage, begin, storage.array.dtype
        self.shape, self.nbytes = (count,), count * storage.array.itemsize

    def data_ptr(self):
        return self.storage.data_ptr() + self.begin * self.dtype.itemsize

    def untyped_storage(self):
        return self.storage


def test_tensors_on_a_gpu_are_copied_there_and_back():

    @tegula.jit
    def kernel(x, y, n: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(y + i, tl.load(x + i) + tl.load(y + i))

    whole = Storage(np.arange(8, dtype=np.float32))
    with tegula.interpret():
        kernel[(1,)](Part(whole, 0, 4), Part(whole, 2, 4), 4)
        assert whole.array.tolist() == [0, 1, 2, 4, 6, 8, 6, 7], "views of one storage stay views of one memory"
        with pytest.raises(tegula.InterpreterError, match="store of 4 bytes|load of 4 bytes"):
            kernel[(1,)](Part(whole, 0, 4), Part(whole, 6, 2), 4)
        x, y = Whole(np.arange(8, dtype=np.float32)), Whole(np.ones(8, np.float32))
        kernel[(1,)](x, y, 8)
        assert y.array.tolist() == list(range(1, 9)) and x.array.tolist() == list(range(8))


def test_tensors_after_the_launch():
    """What a debugger or a hook kept shows its elements, and has no attribute of the language any more."""
    kept = []

    @tegula.jit
    def k(x, N: tl.constexpr):
        kept.append(tl.load(x + tl.arange(0, N)))

    with tegula.interpret():
        k[(1,)](np.arange(4, dtype=np.int32), 4)
    assert kept[0].data.tolist() == [0, 1, 2, 3] and not hasattr(kept[0], "tolist") and not hasattr(kept[0], "shape")
    with pytest.raises(AttributeError, match="while the interpreter runs the kernel"):
        kept[0].shape


def test_access_outside():

    @tegula.jit
    def kernel(first, second):
        tl.store(second + tl.program_id(0), 1)

    with tegula.interpret(), pytest.raises(tegula.InterpreterError) as e:
        kernel[(5,)](np.zeros(100, np.int32), np.zeros(4, np.int32))
    assert isinstance(e.value.__cause__, tegula.DeviceError)
    assert "program (4, 0, 0): store of 4 bytes" in str(e.value) and "`second`, 16 bytes, and this is at byte 16 of it" in str(e.value)


def test_asserts():

    @tegula.jit
    def kernel(x):
        tl.device_assert(tl.load(x) == 3, "no three")

    with tegula.interpret():
        kernel[(1,)](np.full(1, 3))
        with pytest.raises(tegula.InterpreterError, match="no three"):
            kernel[(1,)](np.full(1, 4))


def test_numbers_become_tensors():
    """As in compiled kernels: an assigned number is an int32 tensor, so that it promotes like one."""
    kinds = []

    def note(x):
        kinds.append(str(x.dtype))

    @tegula.jit
    def kernel(x):
        v = tl.load(x)
        five = 5
        note(v + 5)
        note(v + five)
        for i in range(2):
            note(i)
            five += i
        note(five)
        both = 1 < v and v < 3 or not five > 7
        note(both)

    with tegula.interpret():
        kernel[(1,)](np.zeros(1, np.int8))
    assert kinds == ["int8", "int32", "int32", "int32", "int32", "int1"]


def test_helpers_and_reductions():

    @tegula.jit
    def larger(a, b):
        return tl.maximum(a, b)

    @tegula.jit
    def scaled(x, factor: tl.constexpr):
        return x * factor, factor

    @tegula.jit
    def kernel(x, out):
        v = tl.load(x + tl.arange(0, 8))
        doubled, two = scaled(v, 2)
        tl.store(out, tl.reduce(doubled, 0, larger))
        tl.store(out + 1, tl.sum(v) + two)
        tl.store(out + 2, tl.sort(v).max())
        tl.atomic_add(out + 3, 2)

    out = np.zeros(4, np.int32)
    with tegula.interpret():
        kernel[(3,)](np.arange(8, dtype=np.int32), out)
    assert out.tolist() == [14, 30, 7, 6]


def test_autotune_and_heuristics():

    @tegula.autotune([tegula.Config({"BLOCK": 8}), tegula.Config({"BLOCK": 16})], key=["n"])
    @tegula.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @tegula.jit
    def kernel(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + offsets, 1 if EVEN else 2, mask=offsets < n)

    x = np.zeros(32, np.int32)
    with tegula.interpret():
        kernel[lambda meta: (tegula.cdiv(32, meta["BLOCK"]),)](x, 32)
    assert (x == 1).all()


def test_views_share_memory():
    base = np.zeros((4, 6), np.float32)

    @tegula.jit
    def kernel(a, b, stride):
        rows = tl.arange(0, 4) * stride
        tl.store(a + rows, 1.0)
        tl.store(b + rows, tl.load(a + rows) + 1)

    with tegula.interpret():
        kernel[(1,)](base[:, 1], base[:, 4], 6)
    assert base.sum(0).tolist() == [0, 4, 0, 0, 8, 0]


def test_launch_inside_is_refused():

    @tegula.jit
    def kernel(x):
        add[(1,)](x, x, x, 1, BLOCK=1)

    with tegula.interpret(), pytest.raises(tegula.InterpreterError, match="cannot launch another"):
        kernel[(1,)](np.zeros(1, np.float32))


def test_wrong_launches():
    x = np.zeros(1, np.float32)
    with tegula.interpret():
        for grid, options, error in [((-1,), {}, ValueError), ((1, 1, 1, 1), {}, ValueError), ((1,), {"no_option": 1}, KeyError), ((1,), {"n": 3}, TypeError)]:
            with pytest.raises(error):
                add[grid](x, x, x, 1, 1, **options)
        add[(0,)](x, x, x, 1, 1)


@pytest.mark.parametrize("text, kind", [("breakpoint()", "undefinedName"), ("print(tl.arange(0, 4))", "badArgument"), ("note()", "globalVariable")])
def test_compiled_kernels_name_the_interpreter(text, kind, tmp_path, monkeypatch):
    (tmp_path / f"case_{kind}.py").write_text("import tegula, tegula.language as tl\n\ndef note():\n    pass\n\n@tegula.jit\ndef kernel():\n    " + text + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module(f"case_{kind}").kernel
    with pytest.raises(tegula.CompilationError, match="tegula.interpret") as e:
        kernel[(1,)]()
    assert e.value.kind == kind


SCRIPT = """
import numpy as np, triton, triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
@triton.jit
def kernel(x):
    print("here", tl.load(x))
    tl.store(x, 2)
x = np.ones(1, np.int32)
assert isinstance(kernel, InterpretedFunction) and kernel.warmup(x, grid=(1,)) is None and x[0] == 1
kernel[(1,)](x)
assert x[0] == 2
"""


@pytest.mark.parametrize("variable", ["TRITON_INTERPRET", "TEGULA_INTERPRET"])
def test_environment(variable, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "tegula", str(tmp_path / "script.py")], env={**os.environ, variable: "1"}, text=True, capture_output=True,
                          timeout=60)
    assert done.stdout == "here [1]\n", done.stderr


@tegula.jit
def twice(out, x):
    tl.store(out, x + x)


def test_debug_by_the_knob():
    out = np.zeros(1, np.int32)
    with tegula.interpret(), tegula.knobs.runtime.scope():
        twice[(1,)](out, 2**31 - 1)
        assert out[0] == -2
        tegula.knobs.runtime.debug = True
        with pytest.raises(tegula.InterpreterError, match="overflow"):
            twice[(1,)](out, 2**31 - 1)


@tegula.jit
def unpacks_constants(out, shape: tl.constexpr):
    a: tl.constexpr
    b: tl.constexpr
    c: tl.constexpr
    d: tl.constexpr
    (a, b), n = shape
    n, (d, m) = n, (a + b, a)
    tl.static_assert(n.dtype == tl.int32 and m.dtype == tl.int32)
    if (c := a * b) == 6:
        x = tl.reshape(tl.full((a, b), n + m, tl.int32), (c, 1))
        tl.store(out + tl.arange(0, c)[:, None], x + d)


def test_several_targets_with_constants():
    """Names that were declared constants stay it where a tuple is unpacked, as in compiled kernels."""
    interpreted, compiled = np.zeros(8, np.int32), np.zeros(8, np.int32)
    with tegula.interpret():
        unpacks_constants[(1,)](interpreted, ((2, 3), 40))
    unpacks_constants[(1,)](compiled, ((2, 3), 40))
    assert interpreted.tolist() == compiled.tolist() == [47] * 6 + [0, 0]
