"""What kernels read of module and enclosing-function variables: a value must not change after the first launch, code may."""
import enum
import functools
import os
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
import tegula
import tegula.language as tl

DT = tl.int32
NUMBER = tl.constexpr(3)
NOTHING = tl.constexpr(None)
LIST = tl.constexpr([1, 2])
SHARED = tl.constexpr(0)


@tegula.jit
def width(p):
    tl.store(p, tl.full((), 1, DT).dtype.primitive_bitwidth)


@tegula.jit
def number(p):
    tl.store(p, NUMBER)


@tegula.jit
def global_then_local(p):
    n = NUMBER * 10
    _, NUMBER = 0, NUMBER + 1  # noqa: Python would say that it is local from the start
    NUMBER += n
    tl.store(p, NUMBER)


@tegula.jit
def global_before_a_loop(p):
    for i in range(NUMBER):  # noqa: F821
        NUMBER = i * 2
        tl.store(p, NUMBER)


@tegula.jit
def from_list(p):
    tl.store(p, LIST[0])


@tegula.jit
def shared():
    return SHARED


@tegula.jit
def first_user(p):
    tl.store(p, SHARED * 10 + shared())


@tegula.jit
def second_user(p):
    tl.store(p, SHARED * 10 + shared())


@tegula.jit
def third_user(p):
    tl.store(p, shared())


@tegula.jit
def apply(p, f: tl.constexpr):
    tl.store(p, f())


@tegula.jit
def tells_nothing(p):
    tl.store(p, 1 if NOTHING is None else 2)


@tegula.jit
def helper():
    return 1


@tegula.jit
def calls_helper(p):
    tl.store(p, helper())


@tegula.jit
def calls_caller(p):
    tl.store(p, middle() + 100)


@tegula.jit
def middle():
    return helper()


@tegula.jit
def calls_later(p):
    tl.store(p, defined_later())


def run(kernel, *args):
    p = np.full(1, -1, np.int32)
    kernel[(1,)](p, *args)
    return int(p[0])


CHANGED = "Global variable {} has changed since we compiled this kernel, from {} to {}"


@pytest.mark.parametrize("kernel, name, value, other, equal", [(width, "DT", 32, tl.int64, tl.dtype("int32")), (number, "NUMBER", 3, tl.constexpr(4), tl.constexpr(3)),
                                                               (number, "NUMBER", 3, tl.constexpr(3.0), tl.constexpr(3))], ids=["dtype", "constexpr", "type"])
def test_a_value_must_not_change(kernel, name, value, other, equal, monkeypatch):
    old = globals()[name]
    assert run(kernel) == value
    monkeypatch.setitem(globals(), name, other)
    for _ in range(2):
        with pytest.raises(RuntimeError) as e:
            run(kernel)
        assert str(e.value) == CHANGED.format(name, old, other)
    with pytest.raises(RuntimeError, match="has changed"):
        kernel.warmup(np.zeros(1, np.int64))  # another specialization
    monkeypatch.setitem(globals(), name, equal)
    assert run(kernel) == value
    monkeypatch.delitem(globals(), name)
    with pytest.raises(RuntimeError, match="to undefined"):
        run(kernel)


@pytest.mark.parametrize("kernel, value", [(global_then_local, 34), (global_before_a_loop, 4)])
def test_a_name_is_the_global_one_until_it_is_assigned(kernel, value, monkeypatch):
    assert run(kernel) == value
    monkeypatch.setitem(globals(), "NUMBER", tl.constexpr(4))
    with pytest.raises(RuntimeError, match="NUMBER has changed"):
        run(kernel)
    monkeypatch.undo()
    assert run(kernel) == value


def test_a_local_name_hides_a_global_one():

    @tegula.jit
    def kernel(p):
        SHARED = tl.load(p)
        tl.store(p, SHARED)

    @tegula.constexpr_function
    def of_python():
        n = NUMBER
        NUMBER = n
        return NUMBER

    @tegula.jit
    def calls_python(p):
        tl.store(p, of_python())

    assert run(kernel) == -1 and not any(name == "SHARED" for name, _ in kernel.used_global_vals)
    with pytest.raises(tegula.CompilationError, match="`NUMBER` is not defined: it is a local name"):
        run(calls_python)


def test_a_constexpr_must_not_change_in_place():
    assert run(number) == 3
    NUMBER.value = 4
    try:
        with pytest.raises(RuntimeError, match=r"NUMBER has changed .* from constexpr\[3\] to constexpr\[4\]"):
            run(number)
    finally:
        NUMBER.value = 3
    assert run(number) == 3
    assert run(tells_nothing) == 1
    NOTHING.value = 5
    try:
        with pytest.raises(RuntimeError, match="NOTHING has changed"):
            run(tells_nothing)
    finally:
        NOTHING.value = None
    assert run(from_list) == 1
    LIST.value[0] = 5
    try:
        with pytest.raises(RuntimeError, match=r"LIST has changed .* from constexpr\[\[1, 2\]\] to constexpr\[\[5, 2\]\]"):
            run(from_list)
    finally:
        LIST.value[0] = 1
    assert run(from_list) == 1


def test_variables_of_an_enclosing_function():
    c = tl.constexpr(5)

    @tegula.jit
    def kernel(p):
        tl.store(p, c)

    assert run(kernel) == 5
    old, c = c, tl.constexpr(6)
    with pytest.raises(RuntimeError, match=r"c has changed .* from constexpr\[5\] to constexpr\[6\]"):
        run(kernel)
    c = old
    c.value = 7
    with pytest.raises(RuntimeError, match=r"c has changed .* from constexpr\[5\] to constexpr\[7\]"):
        run(kernel)
    c.value = 5
    assert run(kernel) == 5


def test_helper_and_caller_see_one_value(monkeypatch):
    assert run(first_user) == 0
    monkeypatch.setitem(globals(), "SHARED", tl.constexpr(1))
    for _ in range(2):
        with pytest.raises(RuntimeError) as e:
            run(second_user)
        assert str(e.value) == ("Global variable SHARED has value constexpr[1] when compiling second_user, but inner kernel shared has conflicting value "
                                "constexpr[0] from when it was first compiled.  This is not allowed.")
    with pytest.raises(RuntimeError, match="SHARED has changed"):
        run(third_user)  # does not read it itself
    with pytest.raises(RuntimeError, match="SHARED has changed"):
        run(apply, shared)
    monkeypatch.undo()
    assert run(second_user) == 0 and run(third_user) == 0 and run(apply, shared) == 0


def test_a_helper_may_be_defined_anew(monkeypatch):

    @tegula.jit
    def two():
        return 2

    assert run(calls_helper) == 1 and run(calls_caller) == 101
    monkeypatch.setitem(globals(), "helper", two)
    assert run(calls_caller) == 102 and run(calls_helper) == 2
    monkeypatch.undo()
    assert run(calls_helper) == 1 and run(calls_caller) == 101


def test_a_name_may_be_defined_late(monkeypatch):
    with pytest.raises(tegula.CompilationError, match="defined_later"):
        run(calls_later)
    monkeypatch.setitem(globals(), "defined_later", helper)
    assert run(calls_later) == 1


def helper_and_caller():
    """Of each test's own, which changes their texts."""

    @tegula.jit
    def h():
        return 1

    @tegula.jit
    def kernel(p):
        tl.store(p, h())

    return h, kernel


def test_another_text():
    h, kernel = helper_and_caller()
    assert run(kernel) == 1
    key = kernel.cache_key
    h._unsafe_update_src("def h():\n    return 8\n")
    kernel._unsafe_update_src(kernel.src + "\n")
    assert run(kernel) == 8 and kernel.cache_key != key
    with pytest.raises(ValueError, match="other parameters"):
        kernel._unsafe_update_src("def kernel(q):\n    pass\n")


def test_keys_of_texts():
    h, kernel = helper_and_caller()
    key = kernel.cache_key
    kernel._unsafe_update_src(kernel.src)  # the decorators stay
    assert kernel.hash == kernel.cache_key == key
    h._unsafe_update_src(h.src.replace("1", "3"))
    kernel.hash = h.hash = None  # Triton's way to ask for a new one
    assert kernel.cache_key != key and run(kernel) == 3
    h._unsafe_update_src(h.src.replace("3", "1"))
    kernel.hash = None
    assert kernel.cache_key == key and run(kernel) == 1
    h.noinline = True
    kernel.hash = None
    assert h.noinline and kernel.cache_key != key and run(kernel) == 1


settings = types.ModuleType("settings")
settings.WIDTH = tl.constexpr(16)
settings.inner = types.ModuleType("settings.inner")
settings.inner.f = helper


@tegula.jit
def reads_module(p):
    tl.store(p, settings.WIDTH + settings.inner.f())


def test_attributes_of_modules(monkeypatch):
    assert run(reads_module) == 17 and run(reads_module) == 17
    monkeypatch.setattr(settings, "WIDTH", tl.constexpr(32))
    with pytest.raises(RuntimeError, match=r"WIDTH has changed .* from constexpr\[16\] to constexpr\[32\]"):
        run(reads_module)
    monkeypatch.undo()

    @tegula.jit
    def four():
        return 4

    monkeypatch.setattr(settings.inner, "f", four)
    assert run(reads_module) == 20


class Level(enum.IntEnum):
    LOW = 5


class Sizes:
    ROWS = 7


plain = types.ModuleType("plain")
plain.INT, plain.FLOAT, plain.NAME, plain.NONE, plain.YES, plain.LIST, plain.NESTED = 2, 0.5, "fast", None, True, [1, 30], ((1, 2), (3, 400))
plain.Level, plain.Sizes, plain.options, plain.function, plain.table = Level, Sizes, types.SimpleNamespace(depth=6000), len, {"a": 1}


@tegula.jit
def reads_plain_values(p):
    rows: tl.constexpr = plain.INT * 2
    x = tl.sum(tl.full([rows], 1, tl.int32)) if plain.NONE is None else 0
    if plain.NAME == "fast" and plain.YES and plain.FLOAT < 1:
        x += plain.LIST[1] + plain.NESTED[1][1]
    tl.store(p, x + plain.options.depth + plain.Level.LOW + plain.Sizes.ROWS)


def test_plain_values_of_modules(monkeypatch):
    assert run(reads_plain_values) == 6446
    plain.LIST[1] = 31
    with pytest.raises(RuntimeError, match="LIST has changed"):
        run(reads_plain_values)
    plain.LIST[1] = 30
    monkeypatch.setattr(plain, "INT", 4)
    with pytest.raises(RuntimeError, match="INT has changed since we compiled this kernel, from 2 to 4"):
        run(reads_plain_values)
    monkeypatch.undo()
    monkeypatch.setattr(plain.options, "depth", 1)
    with pytest.raises(RuntimeError, match="depth has changed"):
        run(reads_plain_values)
    monkeypatch.undo()
    assert run(reads_plain_values) == 6446


def test_attributes_that_modules_make(monkeypatch):
    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = {"WIDTH": 16}.__getitem__
    monkeypatch.setitem(globals(), "plain", lazy)

    @tegula.jit
    def kernel(p):
        tl.store(p, plain.WIDTH)
    assert run(kernel) == 16 and run(kernel) == 16


@pytest.mark.parametrize("text", ["plain.function", "plain.table", "plain.Sizes.NONE"])
def test_attributes_that_kernels_cannot_use(text, tmp_path):
    (tmp_path / "k.py").write_text(f"import tegula, tegula.language as tl\n@tegula.jit\ndef kernel(p):\n    tl.store(p, {text})\n")
    names = {"__name__": "k", "__file__": str(tmp_path / "k.py")}
    exec(compile((tmp_path / "k.py").read_text(), str(tmp_path / "k.py"), "exec"), names)
    names["plain"] = plain
    with pytest.raises(tegula.CompilationError, match="has no attribute"):
        run(names["kernel"])


def test_the_disk_cache_tells_attributes_of_modules_apart(tmp_path):
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import numpy as np, tegula, tegula.language as tl
        import settings

        @tegula.jit
        def kernel(p):
            tl.store(p, settings.VALUE)

        p = np.zeros(1, np.int32)
        kernel[(1,)](p)
        print(p[0])
        """))
    for value, text in ((1, "tl.constexpr(1)"), (2, "tl.constexpr(2)"), (3, "3"), (4, "4")):
        (tmp_path / "settings.py").write_text(f"import tegula.language as tl\nVALUE = {text}\n")
        env = dict(os.environ, TEGULA_CACHE_DIR=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, tmp_path / "script.py"], env=env, text=True, capture_output=True, timeout=120)
        assert done.stdout.strip() == str(value), done.stderr


def test_used_global_vals():
    run(number)
    (name, _), (value, where) = next(iter(number.used_global_vals.items()))
    assert name == "NUMBER" and value.value == 3 and where is globals()


def _twice(n):
    return 2 * _unwrapped(n)


def _unwrapped(n):
    return n.value if isinstance(n, tl.constexpr) else n


@functools.lru_cache
def _remembered(n):
    return n + 1


def test_functions_at_compile_time_call_plain_ones():
    @tegula.constexpr_function
    def counted(n):
        return _twice(n) + _remembered(n)

    @tl.constexpr
    def bits(n: tl.constexpr) -> int:
        n = _unwrapped(n)
        return 1 << (n - 1)

    @tegula.jit
    def k(out):
        tl.store(out, counted(5))
        tl.store(out + 1, bits(5))

    out = np.zeros(2, np.int32)
    k[(1,)](out)
    assert list(out) == [16, 16]


def test_kernels_do_not_call_plain_functions():
    @tegula.jit
    def k(out):
        tl.store(out, _twice(5))

    with pytest.raises(tegula.CompilationError, match="_twice"):
        k[(1,)](np.zeros(1, np.int32))


def test_variables_of_the_function_around():
    """Those that are no constants are not there; launches and compile() say so."""
    CAPTURED = 42

    @tegula.jit
    def kernel(out):
        tl.store(out, CAPTURED)

    for go in (lambda: kernel[(1,)](np.zeros(1, np.int32)), lambda: tegula.compile(tegula.compiler.ASTSource(fn=kernel, signature={"out": "*i32"}))):
        with pytest.raises(tegula.CompilationError, match="CAPTURED is not defined for the kernel"):
            go()
