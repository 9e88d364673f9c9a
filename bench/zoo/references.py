"""References of attention that several families share, in what numpy and torch have under one name."""


def scores(x, q, k, D):
    return q @ x.swapaxes(k, -1, -2) * D**-0.5


def causal_mask(x, s, n):
    return x.where(x.arange(n)[:, None] >= x.arange(n)[None, :], 0.0, -float("inf"))


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
