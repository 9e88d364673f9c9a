"""The table of libdevice's functions that random programs call: each of them, beside what the table says it means."""
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library
from arithmetic import Undefined, bits_of
from program import NUMPY
from run import jit

N, AT_ONCE = 16, 25


def operand(g, kind, dtype):
    """As operand() in expressions.py draws them."""
    t = NUMPY[dtype]
    if t.kind in "iu" and kind == "any":
        return np.frombuffer(g.bytes(N * t.itemsize), t)
    small = g.integers(-8, 8, N)
    if kind == "order":
        return (small & 7).astype(t)
    if kind in ("quarters", "unit"):
        return (small * (0.25 if kind == "quarters" else 0.0625)).astype(t)
    if kind in ("positive", "above", "chance"):
        return (np.abs(small) * (0.03125 if kind == "chance" else 0.25) + {"positive": 0.125, "above": 1.0, "chance": 0.0625}[kind]).astype(t)
    return (g.standard_normal(N) * 4 + 3).astype(t) if kind == "any" else small.astype(t)


def cases(keys):
    """(key, operands, results) of those that the reference tells."""
    for key in keys:
        row = library.TABLE[key]
        for seed in range(40):
            g = np.random.default_rng([seed, len(key)])
            args = [operand(g, kind, t) for kind, t in zip(row.kinds, row.inputs)]
            try:
                result = library.meaning(key, args)
            except Undefined:
                continue
            yield key, args, result
            break
        else:
            raise AssertionError(f"no operands of which the reference knows {key}")


GROUPS = [list(library.TABLE)[i:i + AT_ONCE] for i in range(0, len(library.TABLE), AT_ONCE)]


@pytest.mark.parametrize("device", ["cpu", "sim", "interpreter"])
@pytest.mark.parametrize("keys", GROUPS, ids=[g[0] for g in GROUPS])
def test_the_table_is_right(keys, device):
    import tegula
    lines, arrays, expected = [], [], []
    for key, args, result in cases(keys):
        names = [f"p{len(arrays) + k}" for k in range(len(args) + 1)]
        text = library.text(key, [f"tl.load({n} + i)" for n in names[:-1]])
        lines.append(f"    tl.store({names[-1]} + i, {text})\n")
        arrays += args + [np.zeros(N, result.dtype)]
        expected.append((key, len(arrays) - 1, result))
    parameters = ", ".join(f"p{k}" for k in range(len(arrays)))
    kernel = jit(f"@tegula.jit\ndef kernel({parameters}):\n    i = tl.arange(0, {N})\n" + "".join(lines))
    if device == "interpreter":
        with tegula.interpret():
            kernel[(1,)](*arrays)
    else:
        kernel[(1,)](*arrays, device=device)
    wrong = [key for key, at, result in expected if (bits_of(arrays[at]) != bits_of(result)).any()]
    assert not wrong


@pytest.mark.parametrize("key, args", [("fast_powf", (-5.0, 0.0625)), ("erfcx_float32", (np.inf, )), ("sqrt_float32", (-1.0, ))])
def test_what_the_reference_cannot_tell_is_refused(key, args):
    with pytest.raises(Undefined):
        library.meaning(key, [np.full(4, x, np.float32) for x in args])
