"""Attention, forward, in one pass (online softmax): the matrix of scores is never stored.

A program owns BM queries of one head. It walks the keys in blocks of BN and keeps the running maximum of each row, the
running sum of exponentials and the weighted sum of values, rescaling the last two when the maximum grows. """
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def attention_kernel(q, k, v, out, scale, tokens, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                     CAUSAL: tl.constexpr):
    first, head = tl.program_id(0) * BM, tl.program_id(1)
    base = head * tokens * D
    rows, dims = first + tl.arange(0, BM), tl.arange(0, D)
    at = base + rows[:, None] * D + dims[None, :]
    query = tl.load(q + at, mask=rows[:, None] < tokens, other=0.0)
    best = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    # exp(x) = 2 ** (x * log2(e)): the factor goes into the scale.
    factor = scale * 1.4426950408889634
    # A causal program needs no keys behind its last query.
    end = tl.minimum(first + BM, tokens) if CAUSAL else tokens
    for start in range(0, end, BN):
        cols = start + tl.arange(0, BN)
        block = base + cols[:, None] * D + dims[None, :]
        key = tl.load(k + block, mask=cols[:, None] < tokens, other=0.0)
        scores = tl.dot(query, tl.trans(key)) * factor
        visible = cols[None, :] < tokens
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        new_best = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp2(scores - new_best[:, None])
        rescale = tl.exp2(best - new_best)
        total = total * rescale + tl.sum(weights, 1)
        value = tl.load(v + block, mask=cols[:, None] < tokens, other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * rescale[:, None])
        best = new_best
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < tokens)


def attention(q, k, v, causal, tile=(64, 64)):
    heads, tokens, dim = q.shape
    out = np.empty_like(q)
    bm, bn = tile
    attention_kernel[tegula.cdiv(tokens, bm), heads](q, k, v, out, dim**-0.5, tokens, D=dim, BM=bm, BN=bn,
                                                     CAUSAL=causal)
    return out


def reference(q, k, v, causal):
    scores = np.einsum("hid,hjd->hij", q, k, dtype=np.float64) * q.shape[-1]**-0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,hjd->hid", e / e.sum(-1, keepdims=True), v)


def main():
    rng = np.random.default_rng(0)
    for tokens in (256, 200):
        q, k, v = (rng.standard_normal((4, tokens, 64), dtype=np.float32) for _ in range(3))
        for causal in (False, True):
            error = np.abs(attention(q, k, v, causal) - reference(q, k, v, causal)).max()
            assert error < 1e-5, error
            print(f"attention of {tokens} tokens, {'causal' if causal else 'all'}: largest error {error:.1e}")


if __name__ == "__main__":
    main()
