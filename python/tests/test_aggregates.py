"""Aggregates on the host: ordinary classes whose instances hold what the annotations say (docs/language.md §1.10)."""
import copy
import gc
import pickle
import weakref
from typing import NamedTuple

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.aggregate
class Options:
    size: tl.constexpr
    parts: tl.tuple = (1, "two")
    flag: "tl.constexpr" = False

    @tegula.constexpr_function
    def doubled(self):
        return self.size * 2

    @tegula.jit
    def shifted(self, x):
        return x + self.size

    def described(self):
        return f"{self.size}"


@tegula.aggregate
class More(Options):
    inner: Options = Options(1)


def test_instances():
    o = Options(4, flag=True)
    assert (o.size.value, o.parts[0].value, o.parts[1].value, o.flag.value) == (4, 1, "two", True)
    assert o.doubled() == 8 and o.described() == "constexpr[4]"
    assert o == Options(4, (1, "two"), True) and o != Options(4) and hash(o) == hash(Options(4, flag=True))
    assert pickle.loads(pickle.dumps(o)) == o and copy.deepcopy(o) == o
    m = More(2, inner=o)
    assert isinstance(m, Options) and m.inner is o and m.doubled() == 4
    assert repr(m).startswith("More(size=constexpr[2]")


@pytest.mark.parametrize("make, error, text", [
    (lambda: Options(), TypeError, "missing a required argument: 'size'"),
    (lambda: Options(1, parts=3), TypeError, "Expected .*tuple.* for attribute 'parts', got <class 'int'>"),
    (lambda: Options(1, other=3), TypeError, "other"),
    (lambda: More(1, inner=4), TypeError, "Expected .*Options.* for attribute 'inner', got <class 'int'>"),
    (lambda: tl.aggregate_replace(Options(1), other=2), TypeError, "Options has no field 'other'"),
    (lambda: tl.aggregate_replace(3), TypeError, "expects an aggregate instance"),
])
def test_wrong_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_instances_are_frozen():
    o = Options(4)
    with pytest.raises(AttributeError, match="cannot assign to field 'size' on immutable aggregate Options"):
        o.size = 3
    with pytest.raises(AttributeError, match="cannot delete field"):
        del o.size
    assert tl.aggregate_replace(o, size=5).size.value == 5 and o.size.value == 4


def test_constructors():
    @tl.core._aggregate
    class Partial:
        a: tl.constexpr
        b: tl.constexpr

        def __init__(self, a, _semantic):
            self.a = a
            if a == 1:
                self.b = 2
            if a == 2:
                self.c = 2

    assert Partial(1).b.value == 2
    with pytest.raises(AttributeError, match="constructor for Partial did not initialize attribute 'b'"):
        Partial(3)
    with pytest.raises(AttributeError, match="Partial has no attribute 'c'"):
        Partial(2)

    @tegula.aggregate
    class Derived(Partial):
        pass

    assert Derived(1).b.value == 2


def test_wrong_classes():
    with pytest.raises(TypeError, match="Aggregates can only inherit from other aggregates"):
        @tegula.aggregate
        class A(list):
            x: tl.constexpr
    with pytest.raises(TypeError, match="field 'x' of aggregate B: <class 'int'> is no type of values"):
        @tegula.aggregate
        class B:
            x: int
    with pytest.raises(ValueError, match="C.__init__ cannot be a @triton.jit function"):
        @tegula.aggregate
        class C:
            @tegula.jit
            def __init__(self):
                pass
    with pytest.raises(TypeError, match="cannot be of the class itself"):
        @tegula.aggregate
        class D:
            x: tl.constexpr

        D.__annotations__ = {"d": D}
        tegula.aggregate(D)


@tegula.aggregate
class Late:
    other: "Later"


@tegula.aggregate
class Later:
    x: tl.tensor


@tegula.jit
def k_late(out, n):
    tl.store(out, Late(Later(n)).other.x)


def test_annotations_in_quotes():
    out = np.zeros(1, np.int32)
    k_late[(1,)](out, 5)
    assert out[0] == 5


SHIFT = tl.constexpr(1)


@tegula.jit
def helper(x):
    return x + SHIFT


@tegula.aggregate
class Uses:
    x: tl.tensor

    @tegula.jit
    def get(self):
        return helper(self.x)


@tegula.jit
def k_uses(out, n):
    tl.store(out, Uses(n).get())


def test_what_methods_read_is_watched(monkeypatch):
    out = np.zeros(1, np.int32)
    k_uses[(1,)](out, 5)
    assert out[0] == 6

    @tegula.jit
    def other(x):
        return x * 10

    monkeypatch.setitem(globals(), "helper", other)  # code: compiled anew
    k_uses[(1,)](out, 5)
    assert out[0] == 50
    monkeypatch.undo()
    k_uses[(1,)](out, 5)
    monkeypatch.setitem(globals(), "SHIFT", tl.constexpr(3))  # a value: must not change
    with pytest.raises(RuntimeError, match="Global variable SHIFT has changed"):
        k_uses[(1,)](out, 5)


@tegula.jit
def k_options(out, o, o2: tl.constexpr):
    tl.store(out, o.shifted(o2.size) + o.doubled())


def test_instances_as_arguments():
    out = np.zeros(1, np.int32)
    k_options[(1,)](out, Options(4), Options(7))
    assert out[0] == 7 + 4 + 8
    k_options[(1,)](out, Options(5), Options(7))
    assert out[0] == 7 + 5 + 10
    class_of_tensors = Uses.__new__(Uses)
    with pytest.raises((TypeError, AttributeError)):
        k_options[(1,)](out, class_of_tensors, Options(7))


@tegula.jit
def k_method(out, CLS: tl.constexpr, n):
    tl.store(out, CLS(n).get())


def test_classes_as_arguments():
    def make(by):
        by = tl.constexpr(by)

        @tegula.aggregate
        class Same:  # by name and fields
            x: tl.tensor

            @tegula.jit
            def get(self):
                return self.x * by

        return Same

    out = np.zeros(1, np.int32)
    for by in (2, 3, 2):
        k_method[(1,)](out, make(by), 5)
        assert out[0] == 5 * by
    k_method[(1,)](out, Uses, 5)
    assert out[0] == 6


def test_builtin():
    @tl.core.builtin
    def twice(x, _semantic=None):
        y = tl.add(x, x, _semantic=_semantic)
        return y, "done"

    @tegula.jit
    def kernel(out, n):
        y, text = twice(n)[0], twice(n)[1] == "done"
        tl.store(out, y + text)

    out = np.zeros(1, np.int32)
    kernel[(1,)](out, 5)
    assert out[0] == 11


@tegula.aggregate
class Based:
    low: tl.constexpr = 3


@tegula.aggregate
class Ranged(Based):
    high: tl.tensor


@tegula.jit
def ranged(out, n):
    a, b = Ranged(high=n), Ranged(4, n)
    tl.store(out, (a.high - a.low) * 100 + b.high - b.low)


def test_a_base_has_a_default_and_the_class_needs_a_value():
    @tegula.aggregate
    class Child(Based):
        high: tl.constexpr

    c, d = Child(high=7), Child(1, 2)
    assert (c.low.value, c.high.value, d.low.value, d.high.value) == (3, 7, 1, 2)
    for args in ((), (5,)):
        with pytest.raises(TypeError, match="missing required argument: 'high'"):
            Child(*args)
    out = np.zeros(1, np.int32)
    ranged[(1,)](out, 9)
    assert out[0] == 605


def test_named_tuples_keep_their_names():
    class Shape(NamedTuple):
        x: tl.constexpr
        y: tl.constexpr

    @tegula.aggregate
    class State:
        shape: tl.tuple

    s = State(Shape(3, tl.constexpr(7)))
    assert isinstance(s.shape.x, tl.constexpr) and s.shape.x.value == 3 and s.shape.y.value == 7


def test_functions_of_the_host_take_keywords():
    @tegula.constexpr_function
    def total(**numbers):
        return sum(numbers.values())

    assert total(a=1, b=tl.constexpr(2)) == 3


def test_a_class_that_was_not_compiled_is_freed():
    @tegula.aggregate
    class Short:
        x: tl.constexpr

    ref = weakref.ref(Short)
    del Short
    gc.collect()
    assert ref() is None


def test_an_error_in_a_method_is_shown_there():
    @tegula.aggregate
    class Wrong:
        x: tl.tensor

        @tegula.jit
        def get(self):
            return self.y

    @tegula.jit
    def kernel(out, n):
        tl.store(out, Wrong(n).get())

    with pytest.raises(tegula.CompilationError, match="`Wrong` object has no attribute `y`"):
        kernel[(1,)](np.zeros(1, np.int32), 3)


@tegula.aggregate
class Biased:
    values: tl.tensor
    bump: tl.constexpr

    def __init__(self, values, bump):
        self.values = values
        self.bump = tl.constexpr(bump)

    @tegula.jit
    def load(self, offsets):
        return tl.load(self.values + offsets) + self.bump


@tegula.aggregate
class Scaled(Biased):
    scale: tl.tensor
    more: tl.tuple

    def __init__(self, values, bump, scale, more=()):
        self.values, self.bump, self.scale, self.more = values, tl.constexpr(bump), scale, more

    @tegula.jit
    def load(self, offsets):
        return Biased.load(self, offsets) * self.scale + (tl.load(self.more[1]) if len(self.more) else 0)


@tegula.aggregate
class Outer:
    inner: Scaled
    add: Biased


class Packed(NamedTuple):
    source: object
    gain: object


@tegula.jit
def loads(out, source, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, source.load(i))


@tegula.jit
def loads_packed(out, packed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, packed.source.load(i) * packed.gain)


@tegula.jit
def loads_nested(out, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, o.inner.load(i) + o.add.load(i))


@pytest.fixture(params=["cpu", "sim", "interpreter"])
def launch(request):
    def run(kernel, *args):
        out = np.zeros(8, np.float32)
        if request.param == "interpreter":
            with tegula.interpret():
                kernel[(1,)](out, *args, 8)
        else:
            kernel[(1,)](out, *args, 8, device=request.param)
        return out.tolist()
    return run


def test_arguments_with_runtime_fields(launch):
    """Tensors and numbers in fields of tl.tensor are run-time arguments, in tuples and in other aggregates, too."""
    x, one = np.arange(8, dtype=np.float32), np.ones(1, np.float32)
    assert launch(loads, Biased(x, 2.0)) == (x + 2).tolist()
    assert launch(loads, Scaled(x, 2.0, 3.0)) == ((x + 2) * 3).tolist()
    assert launch(loads, Scaled(x, 2.0, 0.5, (7, one))) == ((x + 2) * 0.5 + 1).tolist()
    assert launch(loads_packed, Packed(Biased(x, 1.0), 0.5)) == ((x + 1) * 0.5).tolist()
    assert launch(loads_nested, Outer(Scaled(x, 1.0, 2.0), Biased(x, 4.0))) == ((x + 1) * 2 + x + 4).tolist()


def test_arguments_with_runtime_fields_are_specialized_as_tuples():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    first = loads[(1,)](out, Biased(x, 2.0), 8)
    assert loads[(1,)](out, Biased(x * 2, 2.0), 8) is first and out.tolist() == (x * 2 + 2).tolist()
    assert loads[(1,)](out, Biased(x, 2), 8) is not first  # an int is another constant
    with pytest.raises(ValueError, match="read-only"):
        loads[(1,)](np.broadcast_to(np.float32(0), 8), Biased(x, 2.0), 8)
    for wrong in ("text", None, [1.0]):
        with pytest.raises(TypeError, match="for attribute 'values'"):
            Biased(wrong, 1)


def test_classes_of_one_name_have_kernels_of_their_own():
    def made(op):
        @tegula.aggregate
        class Epilogue:
            values: tl.tensor
            if op == "add":
                @tegula.jit
                def load(self, i): return tl.load(self.values + i) + 100
            else:
                @tegula.jit
                def load(self, i): return tl.load(self.values + i) * 100
        return Epilogue

    x, out = np.full(8, 2, np.float32), np.zeros(8, np.float32)
    for op, want in (("add", 102), ("mul", 200), ("add", 102)):
        loads[(1,)](out, made(op)(x), 8)
        assert out[0] == want
