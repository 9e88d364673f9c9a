"""What several families of attention share: references in what numpy and torch have under one name, inputs, tiles, and the entry made of them."""
from zoo.table import Entry, configs, shapes

TILES = configs("BM BN num_warps num_stages", (64, 32, 4, 2), (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3))


def scores(x, q, k, D):
    return q @ x.swapaxes(k, -1, -2) * D**-0.5


def causal_mask(x, s, n):
    return x.where(x.arange(n)[:, None] >= x.arange(n)[None, :], 0.0, -float("inf"))


def ends(x, rows, keys, window=0):
    """A mask of scores in which the last row belongs to the last key; rows see `window` keys, if it is not 0."""
    distance = x.arange(rows)[:, None] + (keys - rows) - x.arange(keys)[None, :]
    return x.where((distance >= 0) & (distance < window) if window else distance >= 0, 0.0, -float("inf"))


def weighted(x, p, v):
    """Values weighted by the softmax of scores `p`, and the scores' log-sum-exp to base two."""
    top = x.amax(p, axis=-1, keepdims=True)
    e = x.exp(p - top)
    total = x.sum(e, axis=-1, keepdims=True)
    return (e / total) @ v, ((top + x.log(total)) * 1.4426950408889634)[..., 0]


def sdpa(torch, a, s, **options):
    return torch.nn.functional.scaled_dot_product_attention(a.q[None], a.k[None], a.v[None], **options)[0]


def by_head(x, heads, one):
    """A head at a time: the scores of all of them would not fit."""
    parts = [one(h) for h in range(heads)]
    return tuple(x.stack([p[i] for p in parts], axis=0) for i in range(len(parts[0])))


def attention_inputs(m, s, t):
    q, k, v = (m.normal((s.H, s.N, s.D), t) for _ in range(3))
    return dict(q=q, k=k, v=v, out=m.empty((s.H, s.N, s.D), t), lse=m.empty((s.H, s.N), "fp32"))


def reference(causal, outputs):
    def made(x, a, s):
        def one(h):
            p = scores(x, a.q[h], a.k[h], s.D)
            return weighted(x, p + causal_mask(x, s, s.N) if causal else p, a.v[h])[:outputs]
        return by_head(x, s.H, one)
    return made


def entry(name, causal, outputs=2, **options):
    """Attention of `outputs` of (out, lse); `options` replace what an Entry is made of."""
    made = dict(inputs=attention_inputs, outputs=("out", "lse")[:outputs], reference=reference(causal, outputs), shapes=shapes("H N D", (64, 4096, 128), (128, 4096, 64)), small=shapes("H N D", (2, 128, 64)), dtypes=("bf16",),
                flops=lambda s: (2 if causal else 4) * s.H * s.N * s.N * s.D, library=lambda torch, a, s: sdpa(torch, a, s, is_causal=causal))
    return Entry(name, **{**made, **options})
