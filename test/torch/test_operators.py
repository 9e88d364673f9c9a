"""Each operator of cases.py eagerly and compiled, its results and its gradients."""
import os

import pytest
import torch

from cases import CASES, Input

DEVICE = os.environ.get("TEGULA_TEST_TORCH_DEVICE", "cpu")
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def inputs_of(case, dtype, device=DEVICE):
    generator = torch.Generator().manual_seed(7)
    made = []
    for spec in case.inputs:
        if isinstance(spec, Input):
            tensor, gradient = spec.make(generator, dtype, device), spec.gradient
        else:
            tensor, gradient = torch.randn(spec, generator=generator).to(device, dtype), True
        made.append(tensor.requires_grad_() if gradient and case.backward else tensor)
    return made


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def forward_backward(function, case, dtype):
    """(results, gradients of the inputs)"""
    inputs = inputs_of(case, dtype)
    torch.manual_seed(3)
    results = flat(function(*inputs))
    if not case.backward:
        return results, []
    generator = torch.Generator().manual_seed(11)
    used = [r for r in results if r.requires_grad]
    weights = [torch.randn(r.shape, generator=generator).to(r.device, r.dtype) for r in used]
    wanted = [i for i in inputs if i.requires_grad]
    return [r.detach() for r in results], list(torch.autograd.grad(used, wanted, weights, allow_unused=True))


def difference(actual, expected, case):
    """The largest difference between two tensors, in units of what is allowed."""
    if not expected.is_floating_point():
        return 0.0 if torch.equal(actual, expected) else float("inf")
    tolerance = TOLERANCE[expected.dtype] * case.slack
    actual, expected = actual.double(), expected.double()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    # Sums have terms as large as the largest element, which decide their rounding.
    scale = expected[expected.isfinite()].abs().max().clamp(min=1) if expected.isfinite().any() else 1
    gap = torch.where(same, 0, (actual - expected).abs() / scale / tolerance)
    return gap.nan_to_num(float("inf")).max().item() if gap.numel() else 0.0


def check(case, dtype):
    from torch._inductor import config
    torch._dynamo.reset()
    expected = forward_backward(case.function, case, dtype)
    with config.patch(dict(case.config)):
        actual = forward_backward(torch.compile(case.function, fullgraph=True), case, dtype)
    worst = 0.0
    for kind, one, other in zip(("result", "gradient"), actual, expected):
        assert len(one) == len(other)
        for i, (a, e) in enumerate(zip(one, other)):
            if case.digest is not None:
                a, e = torch.stack(case.digest(a)), torch.stack(case.digest(e))
            assert (a is None) == (e is None), f"{kind} {i}"
            if a is None:
                continue
            assert (a.shape, a.dtype) == (e.shape, e.dtype), f"{kind} {i}"
            off = difference(a, e, case)
            assert off <= 1, f"{kind} {i} of {case.name}: off by {off:.3g} times what is allowed"
            worst = max(worst, off)
    return worst


@pytest.mark.parametrize("case, dtype", [pytest.param(c, t, id=f"{c.name}-{str(t)[6:]}") for c in CASES for t in c.dtypes])
def test_operator(case, dtype, record_property):
    for name, value in (("operator", case.name), ("dtype", str(dtype)[6:]), ("backward", case.backward)):
        record_property(name, value)
    record_property("off", check(case, dtype))
