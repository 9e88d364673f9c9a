"""Models that test_models.py trains eagerly and compiled: each function gives a model and a function of the step that gives its inputs."""
import torch
import torch.nn.functional as F
from torch import nn


def _normal(*size):
    return lambda step: (torch.randn(size, generator=torch.Generator().manual_seed(100 + step)),)


class Mlp(nn.Sequential):
    def __init__(self, width=64, depth=3):
        super().__init__(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())], nn.Linear(width, width))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, memory):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(memory).chunk(2, -1)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(k), split(v), is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer's block; one that reads a memory too is a decoder's."""

    def __init__(self, width=64, heads=4, causal=False, memory=False):
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads, causal), nn.LayerNorm(width)
        self.cross, self.norm2 = (Attention(width, heads, False), nn.LayerNorm(width)) if memory else (None, None)
        self.mlp, self.norm3 = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)), nn.LayerNorm(width)

    def forward(self, x, memory=None):
        y = self.norm1(x)
        x = x + self.attention(y, y)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory)
        return x + self.mlp(self.norm3(x))


class ResidualBlock(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        conv = lambda: nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv1, self.conv2, self.norm1, self.norm2 = conv(), conv(), nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class Mamba(nn.Module):
    """A selective state space, its recurrence written as a loop over 16 steps."""

    def __init__(self, width=32, states=8):
        super().__init__()
        self.inner, self.states = 2 * width, states
        self.enter, self.leave = nn.Linear(width, 2 * self.inner), nn.Linear(self.inner, width)
        self.conv = nn.Conv1d(self.inner, self.inner, 4, groups=self.inner, padding=3)
        self.select, self.step = nn.Linear(self.inner, 2 * states), nn.Linear(self.inner, self.inner)
        self.decay, self.skip = nn.Parameter(torch.log(torch.arange(1., states + 1)).repeat(self.inner, 1)), nn.Parameter(torch.ones(self.inner))

    def forward(self, x):
        length = x.shape[1]
        x, gate = self.enter(x).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2))
        b, c = self.select(x).chunk(2, -1)
        step = F.softplus(self.step(x))
        kept = torch.exp(-step[..., None] * torch.exp(self.decay))
        added = (step * x)[..., None] * b[:, :, None]
        state, out = torch.zeros_like(added[:, 0]), []
        for t in range(length):
            state = kept[:, t] * state + added[:, t]
            out.append((state * c[:, t, None]).sum(-1))
        return self.leave((torch.stack(out, 1) + self.skip * x) * F.silu(gate))


class Gpt(nn.Module):
    """Gives the loss of predicting the next token."""

    def __init__(self, vocabulary=96, width=64, layers=2, length=32):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, 4, causal=True) for _ in range(layers)), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.token(tokens[:, :-1]) + self.place.weight[:tokens.shape[1] - 1]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens[:, 1:].flatten())


def text(step):
    """A pattern that can be learnt."""
    start = torch.randint(0, 96, (8, 1), generator=torch.Generator().manual_seed(step))
    return ((start + torch.arange(33) * 7) % 96,)


MODELS = {
    "mlp": (Mlp, _normal(32, 64)),
    "transformer encoder": (Block, _normal(2, 24, 64)),
    "transformer decoder": (lambda: Block(causal=True, memory=True), lambda step: _normal(2, 24, 64)(step) + _normal(2, 17, 64)(step + 50)),
    "nn.TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), _normal(2, 24, 64)),
    "resnet": (ResidualBlock, _normal(4, 16, 16, 16)),
    "mamba": (Mamba, _normal(2, 16, 32)),
    "lstm cell": (lambda: nn.LSTMCell(32, 48), _normal(8, 32)),
    "gpt": (Gpt, text),
}
