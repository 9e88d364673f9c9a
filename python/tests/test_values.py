"""What may be an argument: docs/language.md §4.4. Memory of any library, numbers of any kind, and clear errors for the rest."""
import array
import ctypes
import dataclasses
import enum
import functools
import linecache
import gc
import sys

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula import _objects


@tegula.jit
def fill(out, value, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


@tegula.jit
def add_items(out, pair, C: tl.constexpr):
    tl.store(out, pair[0] + pair[1] + C)


@tegula.jit
def by_mode(out, MODE: tl.constexpr, RED: tl.constexpr):
    if MODE == RED:
        tl.store(out, 1.0)
    else:
        tl.store(out, 2.0)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Three(enum.IntEnum):
    THREE = 3


class Size(tuple):
    """As torch.Size: a tuple by inheritance."""


class Tensor:
    """A tensor of a library that tells no more than it must."""

    def __init__(self, a, device="cpu"):
        self.a, self.dtype, self.device, self.shape = a, a.dtype, device, a.shape

    def data_ptr(self):
        return self.a.ctypes.data


@pytest.mark.parametrize("value", [np.bool_(True), np.int8(1), np.uint64(1), np.float16(1), True, 1, 1.0], ids=lambda v: type(v).__name__)
def test_numbers(value):
    out = np.zeros(4, np.float32)
    fill[(1,)](out, value, np.int64(4))
    assert (out == 1).all()


@tegula.jit
def first_of(out, pairs: tl.constexpr):
    tl.store(out, pairs[0][0][0][0][1])


def test_tuples_that_share_their_parts():
    """Each level holds the one before it twice: converted once each, and bounded by what all of it counts."""
    def nest(levels):
        pairs = (1, 2)
        for _ in range(levels):
            pairs = (pairs, pairs)
        return pairs

    out = np.zeros(1, np.float32)
    first_of[(1,)](out, nest(4))
    assert out[0] == 2
    with pytest.raises(ValueError, match="a value of more than 2097152 parts"):
        first_of[(1,)](out, nest(30))


def test_tuples_and_constants():
    out = np.zeros(1, np.float32)
    for pair, c, expected in ((Size((1, 2)), 4, 7), ((np.int32(1), 2.5), np.float64(0.5), 4), ((1, 2), np.bool_(True), 4), ((Three.THREE, 2), Three.THREE, 8)):
        add_items[Size((1,))](out, pair, c)
        assert out[0] == expected
    for mode, expected in ((Colour.RED, 1), (Colour.BLUE, 2)):
        by_mode[(1,)](out, mode, Colour.RED)
        assert out[0] == expected
    fill[(1,)](out, Three.THREE, 1)
    assert out[0] == 3


class Interface:
    def __init__(self, a):
        self.__array_interface__ = a.__array_interface__


class Exchange:
    def __init__(self, a):
        self.__dlpack__, self.__dlpack_device__ = a.__dlpack__, a.__dlpack_device__


def views(make):
    a = np.zeros(4, np.float32)
    return make(a), a


@pytest.mark.parametrize("memory, read", [(array.array("f", [0] * 4), list), (bytearray(4), list), ((ctypes.c_float * 4)(), list),
                                          (memoryview(array.array("q", [0] * 4)), list)], ids=["array", "bytearray", "ctypes", "memoryview"])
def test_buffers(memory, read):
    kernel = fill[(1,)](memory, 5, 4)
    assert read(memory) == [5] * 4 and "out:*" in kernel.metadata.signature


@pytest.mark.parametrize("make", [Tensor, Interface, Exchange], ids=lambda c: c.__name__)
def test_memory_of_other_libraries(make):
    given, a = views(make)
    fill[(1,)](given, 5, 4)
    assert (a == 5).all()


def test_buffers_that_are_read_only():
    with pytest.raises(ValueError, match="`out` is read-only"):
        fill[(1,)](b"abcd", 5, 4)


@pytest.mark.parametrize("value", [np.array(3.0, np.float32), Tensor(np.array(3.0, np.float32))], ids=lambda v: type(v).__name__)
def test_values_of_tensors_without_dimensions(value):
    with pytest.raises(tegula.CompilationError, match=r"`value`: tensors without dimensions are pointers to kernels; their values are given by .item\(\)"):
        fill[(1,)](np.zeros(4, np.float32), value, 4)
    out = np.zeros((), np.float32)
    fill[(1,)](out, 3, 1)  # as memory they are fine
    assert out == 3


def test_other_mistakes_say_nothing_of_items():
    with pytest.raises(tegula.CompilationError) as e:
        fill[(1,)](np.zeros(4, np.float32), (1, 2), 4)
    assert ".item()" not in str(e.value)


class Fake(Tensor):
    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of Tensor")


class Null(Tensor):
    def data_ptr(self):
        return 0


class Low(Tensor):
    """What programs give to warmup(): an address that is aligned, and nothing else."""

    def data_ptr(self):
        return 4096


@pytest.mark.parametrize("given, text", [(Fake(np.zeros(4)), "argument `out`: the Fake has no memory"), (Null(np.zeros(4), "meta"), "`out`.*device meta"),
                                         (Tensor(np.zeros(4), "xpu:0"), "`out`.*device xpu:0"), (tegula.MockTensor(tl.float32), "`out` stands for a tensor"),
                                         (Low(np.zeros(4)), "`out` stands for a tensor and has no memory")],
                         ids=["fake", "meta", "xpu", "mock", "low"])
def test_tensors_without_memory(given, text):
    with pytest.raises(ValueError, match=text):
        fill[(1,)](given, 5, 4)


@pytest.mark.parametrize("value", ["text", object(), {}, [1, 2], 3j, Colour.RED], ids=lambda v: type(v).__name__)
def test_no_arguments(value):
    with pytest.raises(TypeError, match=f"failed to specialize argument of type: {type(value).__name__} .parameter `value`"):
        fill[(1,)](np.zeros(4, np.float32), value, 4)


@tegula.jit
def marked(out, mark: tl.constexpr, other: tl.constexpr):
    tl.store(out, 1 if mark == other else 2)


def test_objects_as_constants():
    import uuid
    out, a, b = np.zeros(1, np.int32), uuid.uuid4(), uuid.uuid4()
    kernels = [marked[(1,)](out, x, a) for x in (a, b, uuid.UUID(str(a)), 3)]
    assert kernels[0] is kernels[2] and len({id(k) for k in kernels}) == 3 and out[0] == 2
    marked[(1,)](out, b, b)
    assert out[0] == 1
    with pytest.raises(TypeError, match="failed to specialize argument of type: bytearray"):
        marked[(1,)](out, {1: bytearray()}, a)
    wrapped = marked[(1,)](out, tl.constexpr(a), a)
    assert wrapped is kernels[0] and out[0] == 1


class EachElement:
    def __eq__(self, other):
        return np.array([True, False])

    __hash__ = object.__hash__


class AllAlike(EachElement):
    def __hash__(self):
        return 7


@tegula.jit
def looks_into(out, mark: tl.constexpr, other: tl.constexpr):
    tl.store(out, mark.field)


def test_objects_that_are_compared_in_another_way():
    out, a, b = np.zeros(1, np.int32), EachElement(), AllAlike()
    assert marked[(1,)](out, a, a) is marked[(1,)](out, a, a) and out[0] == 1
    assert marked[(1,)](out, b, AllAlike()) is not marked[(1,)](out, b, b)
    with pytest.raises(tegula.CompilationError, match="kernels can compare such an object and read those of its attributes that are numbers, strings or types"):
        looks_into[(1,)](out, a, a)


def test_objects_that_are_no_constants():
    class Handle(Tensor):
        pass

    @tegula.jit
    def wrong(x, y: tl.constexpr = (object(), )):
        return x
    out, a, given = np.zeros(1, np.int32), object(), Handle(np.zeros(4, np.float32))
    for value, text in (((1, a), "object"), ([a], "object"), (given, "Handle"), (wrong, "object")):
        with pytest.raises(TypeError, match=f"failed to specialize argument of type: {text}"):
            marked[(1,)](out, value, 1)


def test_objects_leave():
    _values, _objects, x = sys.modules["tegula._values"], sys.modules["tegula._objects"], EachElement()
    gc.collect()  # what other tests left
    _values.constant_of(x)
    held = len(_objects._opaque_ids)
    del x
    gc.collect()
    assert len(_objects._opaque_ids) == held - 1


def test_reinterpret():
    out = np.zeros(4, np.uint8)
    fill[(1,)](tegula.reinterpret(out, tl.int8), -1, 4)
    assert (out == 255).all()
    wrapped = tegula.reinterpret(out, tl.int8)
    assert tegula.reinterpret(wrapped, out.dtype) is out and wrapped.stride() == (1,) and wrapped.numel() == 4 and wrapped.element_size() == 1
    out8 = np.zeros(4, np.uint8)
    fill[(1,)](tegula.reinterpret(out8, tl.float8e5), 1.0, 4)
    assert (out8 == 0x3C).all()
    with pytest.raises(TypeError, match="Cannot reinterpret"):
        tegula.reinterpret(5, tl.int8)


def test_read_only_arrays_beside_atomics():
    """What is only read may be read-only, whatever the kernel does to its other arguments."""
    @tegula.jit(noinline=True)
    def put(out, value):
        tl.store(out, value)

    @tegula.jit
    def k(x, out, N: tl.constexpr):
        v = tl.load(x + tl.arange(0, N))
        tl.atomic_add(out + tl.arange(0, N) % 2, v)
        put(out + 2, tl.sum(v))

    x = np.arange(16, dtype=np.float32)
    x.flags.writeable = False
    for device in ("cpu", "sim"):
        out = np.zeros(3, np.float32)
        k[(1,)](x, out, 16, device=device)
        assert out.tolist() == [56, 64, 120]


@dataclasses.dataclass(frozen=True)
class Settings:
    block: int
    names: tuple = ("a", 1.5, None, True)


class Holder:
    def __init__(self, block):
        self.block = block


@tegula.jit
def by_settings(out, S: tl.constexpr):
    tl.store(out, S.block)


def by_settings_of(s):
    out = np.zeros(1, np.int32)
    by_settings[(1,)](out, s)
    return out[0]


def test_objects_are_looked_at_anew_when_their_fields_change():
    """What a launch knows of an object lasts as long as the object and its fields."""
    h = Holder(3)
    assert by_settings_of(h) == by_settings_of(h) == 3
    h.block = 4
    assert by_settings_of(h) == by_settings_of(h) == 4
    h.block = True  # equal to 1, and another constant
    assert by_settings_of(h) == 1
    h.other = 5
    assert by_settings_of(h) == 1 and _objects.settled(h)
    frozen = Settings(6)
    assert by_settings_of(frozen) == by_settings_of(Settings(6)) == 6 and _objects.settled(frozen)
    equal = Settings(6)  # the kernel keeps the first one
    assert by_settings_of(equal) == 6 and _objects.settled(equal)
    before = len(_objects._settled)
    del equal
    assert len(_objects._settled) == before - 1
    object.__setattr__(frozen, "block", 7)
    assert by_settings_of(frozen) == 7
    held = Holder([1])
    by_settings_of(Settings(8, names=held)), by_settings_of(frozen)
    assert not _objects.settled(held)


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    block: int
    names: tuple = ()


def test_objects_without_weak_references():
    """Of dicts and objects with slots the last few are known."""
    s, d = Slots(3), {"block": 4}
    assert by_settings_of(s) == by_settings_of(s) == 3 and _objects.settled(s)
    assert by_key_of(d) == by_key_of(d) == 4 and _objects.settled(d)
    d["block"] = 5
    assert not _objects.settled(d) and by_key_of(d) == 5
    d["other"] = [1]
    assert by_key_of(d) == 5 and not _objects.settled(d)
    many = [Slots(i) for i in range(200)]
    assert [by_settings_of(m) for m in many] == list(range(200))
    assert _objects.settled(many[-1]) and not _objects.settled(many[0]) and len(_objects._held) <= _objects._most_held


@tegula.jit
def by_key(out, S: tl.constexpr):
    tl.store(out, S["block"])


def by_key_of(d):
    out = np.zeros(1, np.int32)
    by_key[(1,)](out, d)
    return out[0]


def test_tuples_of_constants():
    """Plain ones are converted in C++, others in Python: equal ones are one constant."""
    kept = [(1, True, 1.5, "é", None, (2, ())), (np.int64(1), True, 1.5, "é", None, (2, ()))]
    out = np.zeros(1, np.int32)
    for t, want in ((kept[0], 1), (kept[1], 1), ((2**40, 1), None), ((2**70 - 2**70 + 5, 2**70), 5), (((),) * 3000, None)):
        if want is not None:
            first_item[(1,)](out, t)
            assert out[0] == want
        else:
            ignores_it[(1,)](out, t)
    with pytest.raises(ValueError, match="nested more than 32 deep"):
        ignores_it[(1,)](out, functools.reduce(lambda t, _: (t,), range(40), ()))


@tegula.jit
def first_item(out, T: tl.constexpr):
    tl.store(out, T[0])


@tegula.jit
def ignores_it(out, T: tl.constexpr):
    tl.store(out, 0)


class Looks:
    """Like a tensor of PyTorch's."""
    shape, device = (1,), "cpu"
    def __init__(self, dtype): self.dtype = dtype
    def data_ptr(self): raise RuntimeError("it is sparse")


def test_tensors_that_kernels_cannot_take():
    with pytest.raises(TypeError, match="argument `T`: tensors of dtype torch.complex64 cannot be passed to a kernel; pass torch.view_as_real.x."):
        adds_nothing[(1,)](Looks("torch.complex64"))
    with pytest.raises(TypeError, match="torch.float8_e8m0fnu cannot be passed to a kernel; pass .view.torch.uint8."):
        adds_nothing[(1,)](Looks("torch.float8_e8m0fnu"))
    with pytest.raises(ValueError, match="argument `T`: the Looks has no memory .it is sparse."):
        adds_nothing[(1,)](Looks("torch.float32"))


@tegula.jit
def adds_nothing(T):
    pass


def test_helpers_of_no_module():
    """exec() in a namespace without __name__ makes functions whose __module__ is None."""
    space = {"tegula": tegula, "tl": tl}
    text = "def plain(a, b): return a\n@tegula.jit\ndef k(x): tl.store(x, tl.reduce(tl.arange(0, 8), 0, plain))\n"
    linecache.cache["<no module>"] = len(text), None, text.splitlines(True), "<no module>"
    exec(compile(text, "<no module>", "exec"), space)
    with pytest.raises(tegula.CompilationError, match="`plain` from within @jit'ed function"):
        space["k"][(1,)](np.zeros(1, np.int32))


def test_targets_are_gpu_targets():
    source = tegula.compiler.ASTSource(fn=adds_nothing, signature={"T": "*i32"})
    with pytest.raises(TypeError, match="a target is a GPUTarget"):
        tegula.compile(source, target=("cuda", 90))


def test_types_of_numpy_where_a_dtype_is_needed():
    with pytest.raises(tegula.CompilationError, match="found numpy.float16; write tl.float16"):
        casts_by_numpy[(1,)](np.zeros(1, np.float32))


@tegula.jit
def casts_by_numpy(x):
    tl.store(x, tl.load(x).to(np.float16))
