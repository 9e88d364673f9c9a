"""Operators on tensors that keep a GPU busy: what sweep.py measures there, beside the table of cases.py, whose rows are over before the host has started the next."""
import torch
import torch.nn.functional as F

from cases import REDUCED, Case, ints
from cases import TUNED

CASES = []
HALF = (torch.bfloat16,)


def case(name, function, *inputs, **options):
    CASES.append(Case(name, function, inputs, **options))


M, ROWS = (8192, 4096), (16384, 1024)
case("large add", lambda x, y: x + y, M, M, dtypes=REDUCED, backward=False)
case("large chain", lambda x, y: F.gelu(x * 2 + y).sin(), M, M, dtypes=REDUCED, slack=4)
case("large bias gelu", lambda x, b: F.gelu(x + b, approximate="tanh"), M, (4096,), dtypes=HALF, slack=4)
case("large swiglu", lambda x, y: F.silu(x) * y, M, M, dtypes=HALF)
case("large transpose", lambda x: x.t().contiguous() + 1, M, dtypes=REDUCED, backward=False)
case("large cat", lambda x, y: torch.cat([x, y], 1) * 2, M, M, dtypes=HALF, backward=False)
case("large sum", lambda x: x.sum(), M, backward=False)
case("large sum rows", lambda x: x.sum(1), M, dtypes=REDUCED, backward=False)
case("large sum columns", lambda x: x.sum(0), M, backward=False, slack=4)
case("large argmax", lambda x: x.argmax(1), M, backward=False)
case("large var_mean", lambda x: torch.var_mean(x, 1), M, backward=False)
case("large softmax", lambda x: x.softmax(1), M, dtypes=REDUCED)
case("large softmax of short rows", lambda x: x.softmax(1), ROWS, dtypes=HALF)
case("large layer_norm", lambda x, w, b: F.layer_norm(x, (4096,), w, b), M, (4096,), (4096,), dtypes=REDUCED, slack=10)
case("large rms_norm", lambda x, w: F.rms_norm(x, (4096,), w), M, (4096,), dtypes=HALF, slack=10)
case("large residual norm", lambda x, y, w: F.rms_norm(x + y, (1024,), w), ROWS, ROWS, (1024,), dtypes=HALF, slack=10)
case("large cross_entropy", lambda x, t: F.cross_entropy(x, t), (4096, 32000), ints(32000, 4096), dtypes=HALF)
case("large cumsum", lambda x: x.cumsum(1), M, backward=False, slack=10)
case("large embedding", lambda i, w: F.embedding(i, w) * 2, ints(32000, 8, 2048), (32000, 1024), dtypes=HALF)
case("large batch_norm", lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)), (32, 128, 56, 56), (128,), (128,), slack=10)
case("large max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), (32, 64, 112, 112), backward=False)
case("large dropout", lambda x: F.dropout(x, 0.5, training=True), M, backward=False, digest=lambda x: ((x != 0).float().mean().mul(10).round(),))
case("large sort", lambda x: x.sort(1)[0], (16384, 512), backward=False)
case("large rope", lambda x, c, s: x * c + torch.cat([-x[..., 32:], x[..., :32]], -1) * s, (8, 32, 2048, 64), (2048, 64), (2048, 64), dtypes=HALF)
case("large mm template", lambda x, y: (x @ y).relu(), (4096, 4096), (4096, 4096), dtypes=HALF, backward=False, slack=4, config=TUNED)
case("large mm epilogue", lambda x, y, b: F.gelu(x @ y + b), (4096, 4096), (4096, 4096), (4096,), dtypes=HALF, backward=False, slack=4)
