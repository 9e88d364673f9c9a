"""Mixture of experts: which experts a token goes to, the tokens in order of their experts, and matrix products of each expert's tokens."""
import tegula
import tegula.language as tl


@tegula.jit
def moe_gate(logits, experts, weights, E, K: tl.constexpr, BLOCK: tl.constexpr):
    """The K experts with the largest logits of a token, and the softmax over these K (as Mixtral's). experts, weights [tokens, K]; BLOCK >= E. Grid: tokens."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    left = tl.load(logits + row * E + i, mask=i < E, other=float("-inf")).to(tl.float32)
    first = tl.max(left, 0)
    lane = tl.arange(0, tegula.next_power_of_2(K))
    weight = tl.zeros((tegula.next_power_of_2(K),), tl.float32)
    expert = tl.zeros((tegula.next_power_of_2(K),), tl.int32)
    for k in tl.static_range(K):
        top = tl.max(left, 0)
        chosen = tl.min(tl.where(left == top, i, BLOCK), 0)
        weight = tl.where(lane == k, tl.exp(top - first), weight)
        expert = tl.where(lane == k, chosen, expert)
        left = tl.where(i == chosen, float("-inf"), left)
    tl.store(experts + row * K + lane, expert, mask=lane < K)
    tl.store(weights + row * K + lane, weight / tl.sum(weight, 0), mask=lane < K)


@tegula.jit(do_not_specialize=["count", "slots"])
def moe_align(experts, order, tile_experts, count, E, slots, TILE: tl.constexpr, BLOCK: tl.constexpr):
    """Sorts `count` = tokens * K choices by expert, the part of each expert padded to whole tiles of TILE lines.

    order [slots]: the choice (token * K + k) of each line, -1 for padding; tile_experts [slots / TILE]: the expert of each tile, -1 for tiles that nobody needs.
    slots: a multiple of TILE, at least count + E * (TILE - 1). One program; BLOCK choices at a time, in their order, so that the result is the same every time.
    """
    i = tl.arange(0, BLOCK)
    begin = 0
    for e in range(0, E):
        at = begin
        for start in range(0, count, BLOCK):
            mine = (tl.load(experts + start + i, mask=start + i < count, other=-1) == e).to(tl.int32)
            tl.store(order + at + tl.cumsum(mine, 0) - mine, start + i, mask=mine != 0)
            at += tl.sum(mine, 0)
        tiles = tl.cdiv(at - begin, TILE)
        for start in range(0, tiles, BLOCK):
            tl.store(tile_experts + begin // TILE + start + i, e, mask=start + i < tiles)
        begin += tiles * TILE
        for start in range(at, begin, BLOCK):
            tl.store(order + start + i, -1, mask=start + i < begin)
    for start in range(begin, slots, BLOCK):
        tl.store(order + start + i, -1, mask=start + i < slots)
    for start in range(begin // TILE, slots // TILE, BLOCK):
        tl.store(tile_experts + start + i, -1, mask=start + i < slots // TILE)


@tegula.jit
def grouped_matmul(x, w, out, order, tile_experts, N, K, stride, EACH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """out[choice] = x[choice // EACH] @ w[expert].T for the lines of a tile; w [E, N, K]. EACH is K of the gate where x has a row a token, 1 where it has one a choice.

    Grid: slots / BM, N / BN."""
    expert = tl.load(tile_experts + tl.program_id(0))
    if expert >= 0:
        choice = tl.load(order + tl.program_id(0) * BM + tl.arange(0, BM))
        live = choice >= 0
        row = tl.where(live, choice // EACH, 0).to(tl.int64)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        base = w + expert.to(tl.int64) * N * K
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            a = tl.load(x + row[:, None] * K + (k + rk)[None, :], mask=live[:, None] & (k + rk < K)[None, :], other=0.0)
            b = tl.load(base + rn[None, :].to(tl.int64) * K + (k + rk)[:, None], mask=(rn < N)[None, :] & (k + rk < K)[:, None], other=0.0)
            acc = tl.dot(a.to(b.dtype), b, acc, input_precision="ieee")
        tl.store(out + choice[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=live[:, None] & (rn < N)[None, :])


@tegula.jit
def moe_combine(parts, weights, out, n, K: tl.constexpr, BLOCK: tl.constexpr):
    """out[token] = sum over k of weights[token, k] * parts[token * K + k]."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(K):
        acc += tl.load(weights + row * K + k) * tl.load(parts + (row * K + k) * n + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out + row * n + i, acc.to(out.dtype.element_ty), mask=i < n)
