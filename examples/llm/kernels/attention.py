"""Attention over a paged KV cache: prefill and decode are one kernel, whose tiles hold as many queries as a sequence has new ones."""
import tegula
import tegula.language as tl


@tegula.jit
def paged_attention(q, k_cache, v_cache, out, tiles, pages, max_pages, scale,
                    HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, QUERIES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Causal attention of some queries of one sequence, for the query heads that share one KV head.

    q, out [rows, HQ, D]; cache [pages, PAGE, HK, D]. tiles [n, 4]: first row, number of rows (at most QUERIES), position of the first row, line of the page table.
    Line i of a program's block of BM >= QUERIES * HQ / HK is query i // GROUP, head i % GROUP, so a decode step (one query) still fills a block of GROUP lines. It sees
    the keys up to its own position. The softmax is in one pass (Milakov and Gimelshein, 2018; Dao et al., 2022). Grid: tiles, HK.
    """
    GROUP: tl.constexpr = HQ // HK
    tile = tiles + tl.program_id(0) * 4
    kv_head = tl.program_id(1)
    first = tl.load(tile).to(tl.int64)
    count = tl.load(tile + 1)
    position = tl.load(tile + 2)
    line = pages + tl.load(tile + 3) * max_pages
    m = tl.arange(0, BM)
    d = tl.arange(0, D)
    query = m // GROUP
    live = query < count
    at = (first + query)[:, None] * (HQ * D) + (kv_head * GROUP + m % GROUP)[:, None] * D + d[None, :]
    queries = tl.load(q + at, mask=live[:, None], other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, position + count, BN):
        n = start + tl.arange(0, BN)
        there = n < position + count
        page = tl.load(line + n // PAGE, mask=there, other=0).to(tl.int64)
        key_row = ((page * PAGE + n % PAGE) * HK + kv_head) * D
        k = tl.load(k_cache + key_row[None, :] + d[:, None], mask=there[None, :], other=0.0)
        s = tl.dot(queries, k, input_precision="ieee") * (scale * 1.4426950408889634)
        s = tl.where(n[None, :] <= (position + query)[:, None], s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_cache + key_row[:, None] + d[None, :], mask=there[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = higher
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=live[:, None])
