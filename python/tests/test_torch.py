import importlib.util
import os
import subprocess
import sys

import pytest
import tegula
import tegula.language as tl

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@tegula.jit
def fill(out, value, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, value, mask=i < n)


def filled(x, value):
    """Fills x, in the order of its memory, by a launch and by a handle."""
    fill[(1, )](x, value, x.numel(), B=64)
    ok = bool((x == value).all())
    x.zero_()
    fill.bind(x, value, x.numel(), B=64, grid=(1, ))(x, value, x.numel())
    return ok and bool((x == value).all())


def test_handles_of_tensors_are_found():
    import torch
    assert filled(torch.zeros(20), 2) and filled(torch.zeros(20), 3)
    assert filled(torch.nn.Parameter(torch.zeros(20), requires_grad=False), 2)
    types = tegula._core.tensor_types()
    assert types[torch.Tensor] and types[torch.nn.Parameter]


def test_changes_of_a_tensor_are_seen():
    import torch
    x = torch.zeros(10)
    assert filled(x, 1)
    first = x.untyped_storage()
    x.set_(torch.zeros(20).untyped_storage(), 4, (12, ), (1, ))
    assert filled(x, 2) and torch.tensor(first.tolist()).numel() == 40
    x.resize_(50)
    assert filled(x, 3)
    x.data = torch.zeros(30)
    assert filled(x, 4) and x.numel() == 30
    x.data = torch.zeros(30, dtype=torch.int32)
    assert filled(x, 5) and x.dtype == torch.int32
    y = torch.zeros(7, dtype=torch.int16)
    torch.utils.swap_tensors(x, y)
    assert filled(x, 6) and filled(y, 7) and (x.numel(), y.numel()) == (7, 30)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="has no memory"):
        fill[(1, )](x, 1, 7, B=64)


def test_tensors_of_every_kind():
    import torch
    for dtype in ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool"):
        for _ in range(2):
            assert filled(torch.zeros(33, dtype=getattr(torch, dtype)), 1), dtype
    assert filled(torch.zeros(()), 2) and filled(torch.zeros(0), 2) and filled(torch.zeros(4, 5).t(), 3) and filled(torch.zeros(50)[7:20], 4)

    class Own(torch.Tensor):
        pass

    assert filled(torch.zeros(9).as_subclass(Own), 5)
    for odd in (torch.zeros(9).to_sparse(), torch.zeros(9, device="meta"), torch.zeros(9, dtype=torch.complex64)):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            fill[(1, )](odd, 1, 9, B=64)

    def mapped(row):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            fill[(1, )](row, 1, 4, B=64)
        return row

    torch.vmap(mapped)(torch.zeros(3, 4))
    assert filled(torch.zeros(20), 6)


def test_programs():
    import torch
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    script = os.path.join(os.path.dirname(__file__), "torch_script.py")
    done = subprocess.run([sys.executable, "-m", "tegula", script], text=True, capture_output=True, timeout=900)
    assert done.returncode == 0 and done.stdout.rstrip().endswith(" 0 failed"), done.stdout + done.stderr
