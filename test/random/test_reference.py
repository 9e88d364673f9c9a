"""The reference where numpy is not of one mind."""
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import values
from arithmetic import extremum
from program import NUMPY, Type
from rules import make

SIGNALING = {"float16": 0x7c01, "bfloat16": 0x7f81, "float32": 0x7f800001, "float64": 0x7ff0000000000001}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", SIGNALING)
@pytest.mark.parametrize("n", [1, 3, 16, 33])
def test_extrema_take_the_number_for_any_nan(dtype, n):
    t = NUMPY[dtype]
    nan = np.full(n, SIGNALING[dtype], f"u{t.itemsize}").view(t)
    one = np.full(n, 1, t)
    for smaller in (False, True):
        assert (extremum(nan, one, smaller) == 1).all() and (extremum(one, nan, smaller) == 1).all()
        assert (extremum(nan, nan, smaller) != 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["amax", "amin"])
@pytest.mark.parametrize("n", [2, 4, 16, 64])
def test_reductions_take_the_number_for_any_nan(dtype, op, n):
    t = NUMPY[dtype]
    x = np.full(n, 3, t)
    x.view(f"u{t.itemsize}")[n // 2:] = SIGNALING[dtype]
    e = make(op, make("var", name="x", type=Type(dtype, (n, ))), axis=0, keep=False)
    assert values.VALUES[op](None, e, [x]) == 3
