"""Annotations of parameters: what counts is the object, by whatever name the text calls it."""
from typing import Optional

import numpy as np
import pytest
import tegula
import tegula.language as tl
from tegula.language import constexpr as C

WIDE = tl.int64
Width = "tl.constexpr"


def annotated(**annotations):
    def decorator(f):
        f.__annotations__ = annotations
        return f
    return decorator


def result(kernel, *args):
    out = np.full(8, -1, np.int64)
    kernel[(1,)](out, *args)
    return out.tolist()


@tegula.jit
def by_alias(out, n: C):
    tl.store(out + tl.arange(0, n), 7)


@tegula.jit
def in_quotes(out, n: Width):
    tl.store(out + tl.arange(0, n), 7)


@tegula.jit
def in_a_union(out, n: C | None):
    tl.store(out + tl.arange(0, n), 7)


@tegula.jit
def optional(out, n: Optional[tl.constexpr]):
    tl.store(out + tl.arange(0, n), 7)


@tegula.jit
@annotated(n=tl.constexpr)
def replaced(out, n):
    tl.store(out + tl.arange(0, n), 7)


@tegula.jit
@annotated(n=tl.constexpr)
def replaced_another(out, n: tl.int32):
    tl.store(out + tl.arange(0, n), 7)


@tegula.jit
def calls(out, n: tl.constexpr):
    replaced(out, n)


@pytest.mark.parametrize("kernel", [by_alias, in_quotes, in_a_union, optional, replaced, replaced_another, calls], ids=lambda k: k.__name__)
def test_constexpr(kernel):
    assert result(kernel, 4) == [7] * 4 + [-1] * 4
    assert kernel.params[1].is_constexpr and kernel.constexprs == [1]


@tegula.jit
@annotated(n="tl.uint8", p="*i64")
def typed(p, n):
    tl.static_assert(n.dtype == tl.uint8)
    tl.store(p, n)


@tegula.jit
def typed_by_alias(p, n: WIDE):
    tl.static_assert(n.dtype == tl.int64)
    tl.store(p, n << 40)


@tegula.jit
@annotated()
def none_left(p, n: tl.constexpr):
    tl.static_assert(n.dtype == tl.int32)
    tl.store(p, n)


def test_types():
    assert result(typed, 200)[0] == 200
    assert result(typed_by_alias, 1)[0] == 1 << 40
    assert result(none_left, 5)[0] == 5
    assert not none_left.params[1].is_constexpr


def test_functions_of_one_text_with_other_annotations_are_other_kernels():
    def make(t):
        @tegula.jit
        @annotated(n=t)
        def kernel(out, n):
            tl.store(out, n.to(tl.int64))
        return kernel
    for t, value in ((tl.int8, -1), (tl.uint8, 255), (tl.int16, 255)):
        assert result(make(t), 255 if t != tl.int8 else -1)[0] == value
    assert len({make(t).cache_key for t in (tl.int8, tl.uint8)}) == 2
