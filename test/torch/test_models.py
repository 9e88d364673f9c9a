"""Models trained eagerly and compiled: the same losses in each of 20 steps."""
import os

import pytest
import torch

from models import MODELS

DEVICE = os.environ.get("TEGULA_TEST_TORCH_DEVICE", "cpu")


def losses(name, compiled, steps=20):
    make, data = MODELS[name]
    torch.manual_seed(0)
    model = make().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run = torch.compile(model, fullgraph=True) if compiled else model
    found = []
    for step in range(steps):
        result = run(*(t.to(DEVICE) for t in data(step)))
        result = result[0] if isinstance(result, tuple) else result
        loss = result if result.dim() == 0 else (result - 0.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    torch._dynamo.reset()
    expected = losses(name, compiled=False)
    assert expected[-1] < expected[0]
    torch.testing.assert_close(losses(name, compiled=True), expected, rtol=2e-4, atol=2e-5)
