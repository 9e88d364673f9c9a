"""Attention over a paged KV cache: prefill and decode are one kernel, whose tiles hold as many queries as a sequence has new ones."""
import tegula
import tegula.language as tl


@tegula.jit
def attend(queries, k_keys, v_keys, line, kv_head, position, query, length, begin, end, scale, top, total, acc, cached,
           HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr, MASKED: tl.constexpr, DESCRIPTORS: tl.constexpr):
    """Keys begin ... end: a block of BN lies in one page. MASKED: some of them are behind a query, or not there."""
    d = tl.arange(0, D)
    if DESCRIPTORS:
        k_blocks = tl.make_tensor_descriptor(k_keys, [cached, D], [D, 1], [BN, D])
        v_blocks = tl.make_tensor_descriptor(v_keys, [cached, D], [D, 1], [BN, D])
    for start in range(begin, end, BN):
        n = start + tl.arange(0, BN)
        first = (tl.load(line + start // PAGE) * HK + kv_head) * PAGE + start % PAGE
        at = first.to(tl.int64) * D + tl.arange(0, BN) * D
        if DESCRIPTORS:
            k = k_blocks.load([first, 0]).T
        elif MASKED:
            k = tl.load(k_keys + at[None, :] + d[:, None], mask=(n < length)[None, :], other=0.0)
        else:
            k = tl.load(k_keys + at[None, :] + d[:, None])
        s = tl.dot(queries, k, input_precision="ieee")
        if MASKED:
            s = tl.where(n[None, :] <= (position + query)[:, None], s * scale, float("-inf"))
            higher = tl.maximum(top, tl.max(s, 1))
            p = tl.exp2(s - higher[:, None])
        else:
            higher = tl.maximum(top, tl.max(s, 1) * scale)
            p = tl.exp2(s * scale - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(p, 1)
        if DESCRIPTORS:
            v = v_blocks.load([first, 0])
        elif MASKED:
            v = tl.load(v_keys + at[:, None] + d[None, :], mask=(n < length)[:, None], other=0.0)
        else:
            v = tl.load(v_keys + at[:, None] + d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = higher
    return top, total, acc


@tegula.jit
def paged_attention(q, k_cache, v_cache, out, sums, tiles, pages, max_pages, cached, scale, HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                    QUERIES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr, DESCRIPTORS: tl.constexpr, EARLY: tl.constexpr = False):
    """Causal attention of some queries of one sequence, for the query heads that share one KV head.

    q, out [rows, HQ, D]; cache [pages, HK, PAGE, D] of `cached` = pages * HK * PAGE rows, PAGE a multiple of BN. tiles [n, 4]: first row, number of rows (at most QUERIES),
    position of the first row, line of the page table. Line i of a program's block of BM >= QUERIES * HQ / HK is query i // GROUP, head i % GROUP, so a decode step (one
    query) still fills a block of GROUP lines. It sees the keys up to its own position. The softmax is in one pass (Milakov and Gimelshein, 2018; Dao et al., 2022).
    Grid: HK, tiles, SPLITS. Where there are few tiles, SPLITS programs share the keys of one (Flash-Decoding, Dao et al., 2023): `out` is [SPLITS, tiles, HQ, D] in fp32 then
    and `sums` [SPLITS, tiles, HQ, 2] has the largest score and the sum of the weights, for attention_parts; QUERIES is 1. EARLY as in gemv_fused.
    """
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    GROUP: tl.constexpr = HQ // HK
    tile = tl.num_programs(1) - 1 - tl.program_id(1)  # the last tiles of a prompt have the most keys, and so begin first
    kv_head = tl.program_id(0)
    first = tl.load(tiles + tile * 4).to(tl.int64)
    count = tl.load(tiles + tile * 4 + 1)
    position = tl.load(tiles + tile * 4 + 2)
    line = pages + tl.load(tiles + tile * 4 + 3) * max_pages
    length = position + count
    m = tl.arange(0, BM)
    d = tl.arange(0, D)
    query = m // GROUP
    live = query < count
    row = (first + query) * HQ + kv_head * GROUP + m % GROUP
    queries = tl.load(q + row[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    exponent = scale * 1.4426950408889634
    begin = 0
    end = length
    if SPLITS > 1:
        begin = tl.minimum(tl.cdiv(tl.cdiv(length, BN), SPLITS) * BN * tl.program_id(2), length)
        end = tl.minimum(begin + tl.cdiv(tl.cdiv(length, BN), SPLITS) * BN, length)
    whole = tl.maximum(begin, tl.minimum(end, (position + 1) // BN * BN))
    top, total, acc = attend(queries, k_cache, v_cache, line, kv_head, position, query, length, begin, whole, exponent, top, total, acc, cached, HK, D, PAGE, BN, False, DESCRIPTORS)
    top, total, acc = attend(queries, k_cache, v_cache, line, kv_head, position, query, length, whole, end, exponent, top, total, acc, cached, HK, D, PAGE, BN, True, False)
    if SPLITS > 1:
        part = (tl.program_id(2) * tl.num_programs(1) + tile).to(tl.int64) * HQ + kv_head * GROUP + m % GROUP
        tl.store(out + part[:, None] * D + d[None, :], acc, mask=live[:, None])
        tl.store(sums + part * 2, top, mask=live)
        tl.store(sums + part * 2 + 1, total, mask=live)
    else:
        tl.store(out + row[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty), mask=live[:, None])


@tegula.jit
def attention_parts(parts, sums, out, tiles, HQ: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr, EARLY: tl.constexpr = False):
    """What SPLITS programs of paged_attention found, as one. Grid: tiles, HQ."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    tile = tl.program_id(0)
    head = tl.program_id(1)
    split = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    at = (split * tl.num_programs(0) + tile).to(tl.int64) * HQ + head
    top = tl.load(sums + at * 2)
    weight = tl.exp2(top - tl.max(top, 0))  # 0 of a part without keys
    total = tl.sum(weight * tl.load(sums + at * 2 + 1), 0)
    value = tl.sum(tl.load(parts + at[:, None] * D + d[None, :]) * weight[:, None], 0) / total
    row = tl.load(tiles + tile * 4).to(tl.int64)
    tl.store(out + (row * HQ + head) * D + d, value.to(out.dtype.element_ty))
