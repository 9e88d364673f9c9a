"""Functions that nobody has any more end, with all that only they refer to, whatever refers to whom in a circle."""
import collections
import enum
import gc
import types
import weakref

import numpy as np
import pytest
import tegula
import tegula.language as tl


def module():
    m = types.ModuleType("user_module")
    m.K = tl.constexpr(3)
    return m


def of_a_module(m):
    @tegula.jit
    def kernel(p):
        tl.store(p, m.K)

    return kernel, 3


def of_itself(m):
    @tegula.constexpr_function
    def factorial(n):
        return n * factorial(n - 1) if n > 1 else m.K

    @tegula.jit
    def kernel(p):
        tl.store(p, factorial(4))

    return kernel, 72


def of_each_other(m):
    @tegula.constexpr_function
    def even(n):
        return m.K if n == 0 else odd(n - 1)

    @tegula.constexpr_function
    def odd(n):
        return 0 if n == 0 else even(n - 1)

    @tegula.jit
    def kernel(p):
        tl.store(p, even(4))

    return kernel, 3


def of_a_class(m):
    @tl.core._aggregate
    class Counter:
        n: tl.constexpr

        @tegula.constexpr_function
        def __init__(self, n):
            self.n = tl.constexpr(n)

        @tegula.jit
        def more(self):
            return Counter(self.n + m.K)

    @tegula.jit
    def kernel(p):
        tl.store(p, Counter(2).more().n)

    return kernel, 5


def through_a_module(m):
    @tegula.constexpr_function
    def factorial(n):
        return n * m.factorial(n - 1) if n > 1 else m.K

    m.factorial = factorial

    @tegula.jit
    def kernel(p):
        tl.store(p, m.factorial(4))

    return kernel, 72


MAKERS = [of_a_module, of_itself, of_each_other, of_a_class, through_a_module]


@pytest.mark.parametrize("make", MAKERS)
def test_it_runs(make):
    kernel, expected = make(module())
    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == expected


def known_to_the_compiler():
    """How many modules the compiler may ask: each is kept by one of its functions."""
    return sum(getattr(f, "__qualname__", "") == "module_value.<locals>.resolve" for f in gc.get_objects() if isinstance(f, types.FunctionType))


@pytest.mark.parametrize("make", MAKERS)
def test_it_ends(make):
    gc.collect()
    before = known_to_the_compiler()
    m = module()
    kernel, _ = make(m)
    kernel.content_hash()
    there = weakref.ref(m), weakref.ref(kernel)
    del m
    gc.collect()
    assert known_to_the_compiler() > before and all(r() is not None for r in there)
    del kernel
    gc.collect()
    assert known_to_the_compiler() == before and all(r() is None for r in there)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_launched_functions_end_with_their_kernels(device):
    kernel, expected = of_each_other(module())
    out = np.zeros(1, np.int32)
    launched = kernel[(1,)](out, device=device)
    there = weakref.ref(kernel), weakref.ref(launched)
    launched.mark = 7
    del launched
    gc.collect()
    assert kernel[(1,)](out, device=device).mark == 7, "the kernel's object is the function's as long as that is there"
    del kernel
    gc.collect()
    assert all(r() is None for r in there)


def test_kernels_outlive_their_functions():
    kernel, expected = of_each_other(module())
    out = np.zeros(1, np.int32)
    launched = kernel[(1,)](out)
    del kernel
    gc.collect()
    out[0] = 0
    launched[(1, 1, 1)](out)
    assert out[0] == expected and "store" in launched.asm["tile"]


def test_names_of_kernels_end_with_their_function():
    """`repr` may hold the function that it names."""
    def make():
        held = []

        def name(specialization):
            return held[0].__name__ + "_named"

        @tegula.jit(repr=name)
        def kernel(p):
            tl.store(p, 1)

        held.append(kernel)
        return kernel, name

    kernel, name = make()
    launched = kernel[(1,)](np.zeros(1, np.int32))
    assert launched.name == "kernel_named"
    kernel._unbind()  # as when something that it reads has changed
    assert kernel[(1,)](np.zeros(1, np.int32)).name == "kernel_named"
    there = weakref.ref(name), weakref.ref(kernel)
    del kernel, name, launched
    gc.collect()
    assert all(r() is None for r in there)


def test_classes_that_were_passed_end():
    def passed():
        class Mode(enum.Enum):
            A = "a"
            B = "b"

        Pair = collections.namedtuple("Pair", "x y")

        @tegula.jit
        def kernel(p, mode: tl.constexpr, A: tl.constexpr, pair: tl.constexpr):
            tl.store(p, pair.x + (10 if mode == A else 20))

        out = np.zeros(1, np.int32)
        results = []
        for mode in Mode:
            kernel[(1,)](out, mode, Mode.A, Pair(1, 2))
            results.append(out[0])
        assert results == [11, 21]
        return weakref.ref(Mode), weakref.ref(Pair)

    there = passed()
    gc.collect()
    assert all(r() is None for r in there)


def test_numbers_of_members_are_not_given_again():
    """Kernels for members of an enum that is gone are not taken for those of another one."""
    @tegula.jit
    def kernel(p, mode: tl.constexpr, A: tl.constexpr):
        tl.store(p, 1 if mode == A else 2)

    def results():
        class Mode(enum.Enum):
            A = "a"
            B = "b"

        out = np.zeros(1, np.int32)
        for mode in Mode:
            kernel[(1,)](out, mode, Mode.A)
            yield out[0]

    for _ in range(3):
        assert list(results()) == [1, 2]
        gc.collect()
