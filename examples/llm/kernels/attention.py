"""Attention over a paged KV cache: rotary positions with the append; paged_attention for any number of new tokens of a sequence; decode_attention for one, whose rotation and append it does, too."""
import tegula
import tegula.language as tl


@tegula.jit
def turned(low, high, c, s):
    """Both halves of heads, rotated by the angles that have these cosines and sines."""
    return low * c - high * s, high * c + low * s


@tegula.jit
def normed(low, high, weight, i, HALF: tl.constexpr, eps):
    """Both halves of heads [..., HALF], divided by the root of the mean square of their elements, times weight [2 HALF]."""
    axis: tl.constexpr = len(low.shape) - 1
    factor = tl.expand_dims(tl.rsqrt((tl.sum(low * low, axis) + tl.sum(high * high, axis)) / (2 * HALF) + eps), axis)
    return low * factor * tl.load(weight + i).to(tl.float32), high * factor * tl.load(weight + HALF + i).to(tl.float32)


@tegula.jit
def joined(at, mask, apart, PARTS: tl.constexpr):
    """The sum in fp32 of what PARTS programs that shared the inputs of a product have given, `apart` elements from one to the next."""
    value = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    for part in tl.static_range(1, PARTS):
        value += tl.load(at + part * apart, mask=mask, other=0.0).to(tl.float32)
    return value


@tegula.jit
def rope_append(qkv, q_out, k_cache, v_cache, cosines, sines, positions, slots, pages, max_pages, bias, q_norm, k_norm, eps, apart,
                HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, HEADS: tl.constexpr, EARLY: tl.constexpr = False, BIAS: tl.constexpr = False, NORM: tl.constexpr = False,
                PARTS: tl.constexpr = 1):
    """Rotates the queries and keys of a row by its position; queries go to q_out, keys and values to the row's place in the paged cache.

    qkv [rows, HQ + 2 HK, D]; element i of the first half of a head is turned with element i of the second (the order of Llama's weights in safetensors). A page
    holds PAGE tokens of all HK heads: cache [pages, HK, PAGE, D]. `slots` says which line of the page table a row's sequence has. BIAS: bias [HQ + 2 HK, D] is added to the row before. NORM: heads
    of queries and keys are normalized before they are turned, q_norm, k_norm [D]. PARTS: qkv is the sum of so many, `apart` elements from one to the next. Grid: rows, (HQ + 2 HK) / HEADS. EARLY as in gemv_fused (matmul.py).
    """
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    HALF: tl.constexpr = D // 2
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    i = tl.arange(0, HALF)
    position = tl.load(positions + row)
    page = tl.load(pages + tl.load(slots + row) * max_pages + position // PAGE).to(tl.int64)
    source = qkv + (row * (HQ + 2 * HK) + head)[:, None] * D + i[None, :]
    there = (head < HQ + 2 * HK)[:, None]
    low = joined(source, there, apart, PARTS)
    high = joined(source + HALF, there, apart, PARTS)
    if BIAS:
        low += tl.load(bias + head[:, None] * D + i[None, :], mask=there, other=0.0).to(tl.float32)
        high += tl.load(bias + HALF + head[:, None] * D + i[None, :], mask=there, other=0.0).to(tl.float32)
    c = tl.load(cosines + position * HALF + i)[None, :]
    s = tl.load(sines + position * HALF + i)[None, :]
    is_query = (head < HQ)[:, None]
    whole_low, whole_high = low, high
    if NORM:
        q_low, q_high = normed(low, high, q_norm, i, HALF, eps)
        k_low, k_high = normed(low, high, k_norm, i, HALF, eps)
        whole_low, whole_high = tl.where(is_query, q_low, k_low), tl.where(is_query, q_high, k_high)
    turned_low, turned_high = turned(whole_low, whole_high, c, s)
    to = q_out + (row * HQ + head)[:, None] * D + i[None, :]
    tl.store(to, turned_low.to(q_out.dtype.element_ty), mask=is_query)
    tl.store(to + HALF, turned_high.to(q_out.dtype.element_ty), mask=is_query)
    is_key = ((head >= HQ) & (head < HQ + HK))[:, None]
    at = ((page * HK + (head - HQ) % HK) * PAGE + position % PAGE)[:, None] * D + i[None, :]
    tl.store(k_cache + at, turned_low.to(k_cache.dtype.element_ty), mask=is_key)
    tl.store(k_cache + at + HALF, turned_high.to(k_cache.dtype.element_ty), mask=is_key)
    is_value = ((head >= HQ + HK) & (head < HQ + 2 * HK))[:, None]
    tl.store(v_cache + at, low.to(v_cache.dtype.element_ty), mask=is_value)
    tl.store(v_cache + at + HALF, high.to(v_cache.dtype.element_ty), mask=is_value)


@tegula.jit
def weighed(scores, top, EMPTY: tl.constexpr = False):
    """A step of the softmax along the second axis, in powers of two: the largest score so far, the weights beside it, and what the weights before, beside `top`, are to be multiplied by.
    EMPTY: there may be rows without any score, now and before."""
    higher = tl.maximum(top, tl.max(scores, 1))
    beside = higher
    if EMPTY:
        beside = tl.where(higher > float("-inf"), higher, 0.0)
    return higher, tl.exp2(scores - beside[:, None]), tl.exp2(top - beside)


@tegula.jit
def attend(queries, k_keys, v_keys, line, kv_head, position, query, length, begin, end, scale, top, total, acc, cached,
           HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr, MASKED: tl.constexpr, DESCRIPTORS: tl.constexpr, WINDOW: tl.constexpr = 0):
    """Keys begin ... end: a block of BN lies in one page. MASKED: some of them are behind a query, not there, or, with a WINDOW, too far in front of one."""
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
            seen = n[None, :] <= (position + query)[:, None]
            if WINDOW > 0:
                seen &= n[None, :] > (position + query - WINDOW)[:, None]
            s = tl.where(seen, s * scale, float("-inf"))
            higher, p, fade = weighed(s, top, WINDOW > 0)
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
                    QUERIES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr, DESCRIPTORS: tl.constexpr, EARLY: tl.constexpr = False, WINDOW: tl.constexpr = 0):
    """Causal attention of some queries of one sequence, for the query heads that share one KV head.

    q, out [rows, HQ, D]; cache [pages, HK, PAGE, D] of `cached` = pages * HK * PAGE rows, PAGE a multiple of BN. tiles [n, 4]: first row, number of rows (at most QUERIES),
    position of the first row, line of the page table. Line i of a program's block of BM >= QUERIES * HQ / HK is query i // GROUP, head i % GROUP, so a decode step (one
    query) still fills a block of GROUP lines. It sees the keys up to its own position, with a WINDOW > 0 the last WINDOW of them. The softmax is in one pass (Milakov and Gimelshein, 2018; Dao et al., 2022).
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
    if WINDOW > 0:
        begin = tl.maximum(position - WINDOW + 1, 0) // BN * BN
    end = length
    if SPLITS > 1:
        each = tl.cdiv(tl.cdiv(length - begin, BN), SPLITS) * BN
        begin = tl.minimum(begin + each * tl.program_id(2), length)
        end = tl.minimum(begin + each, length)
    whole = tl.maximum(begin, tl.minimum(end, (position + 1) // BN * BN))
    if WINDOW > 0:
        inner = tl.minimum(whole, tl.maximum(begin, tl.cdiv(tl.maximum(length - WINDOW, 0), BN) * BN))  # from here on the last query sees all
        top, total, acc = attend(queries, k_cache, v_cache, line, kv_head, position, query, length, begin, inner, exponent, top, total, acc, cached, HK, D, PAGE, BN, True, False, WINDOW)
        begin = inner
    top, total, acc = attend(queries, k_cache, v_cache, line, kv_head, position, query, length, begin, whole, exponent, top, total, acc, cached, HK, D, PAGE, BN, False, DESCRIPTORS)
    top, total, acc = attend(queries, k_cache, v_cache, line, kv_head, position, query, length, whole, end, exponent, top, total, acc, cached, HK, D, PAGE, BN, True, False, WINDOW)
    if SPLITS > 1:
        part = (tl.program_id(2) * tl.num_programs(1) + tile).to(tl.int64) * HQ + kv_head * GROUP + m % GROUP
        tl.store(out + part[:, None] * D + d[None, :], acc, mask=live[:, None])
        tl.store(sums + part * 2, top, mask=live)
        tl.store(sums + part * 2 + 1, total, mask=live)
    else:
        tl.store(out + row[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty), mask=live[:, None])


@tegula.jit
def halves(low, high, BM: tl.constexpr, D: tl.constexpr):
    """[low, high] along the second axis."""
    return tl.reshape(tl.permute(tl.join(low, high), (0, 2, 1)), (BM, D))


@tegula.jit
def decode_attention(qkv, k_cache, v_cache, out, sums, cosines, sines, tiles, pages, max_pages, scale, bias, q_norm, k_norm, eps, apart, HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                     BM: tl.constexpr, FIRST: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr, EARLY: tl.constexpr = False, WINDOW: tl.constexpr = 0, BIAS: tl.constexpr = False, NORM: tl.constexpr = False,
                     PARTS: tl.constexpr = 1):
    """One new token of each sequence, from the product qkv [rows, HQ + 2 HK, D] on: what rope_append and paged_attention do, with their arguments, in one kernel.

    The program of a KV head turns its key and appends it; its softmax begins with that one, in registers, and goes on with the keys that the cache had before. FIRST of those are loaded
    at once, a multiple of BN, which with EARLY hides behind the kernel that makes qkv: no kernel of this step writes them. Grid: HK, tiles, SPLITS; the first split has the new key.
    """
    GROUP: tl.constexpr = HQ // HK
    HALF: tl.constexpr = D // 2
    kv_head = tl.program_id(0)
    tile = tl.program_id(1)
    split = tl.program_id(2)
    row = tl.load(tiles + tile * 4).to(tl.int64)
    position = tl.load(tiles + tile * 4 + 2)
    line = pages + tl.load(tiles + tile * 4 + 3) * max_pages
    m = tl.arange(0, BM)
    d = tl.arange(0, D)
    i = tl.arange(0, HALF)
    live = m < GROUP
    c = tl.load(cosines + position * HALF + i)
    s = tl.load(sines + position * HALF + i)
    new_at = ((tl.load(line + position // PAGE) * HK + kv_head) * PAGE + position % PAGE).to(tl.int64) * D
    seen = 0
    if WINDOW > 0:
        seen = tl.maximum(position - WINDOW + 1, 0)  # from here on
    each = tl.cdiv(tl.cdiv(position - seen // BN * BN, BN), SPLITS) * BN
    begin = tl.minimum(seen // BN * BN + each * split, position)
    end = tl.minimum(begin + each, position)
    n = begin + tl.arange(0, FIRST)
    at = ((tl.load(line + n // PAGE, mask=n < end, other=0) * HK + kv_head) * PAGE + n % PAGE).to(tl.int64) * D
    first_k = tl.load(k_cache + at[None, :] + d[:, None], mask=(n < end)[None, :], other=0.0)
    first_v = tl.load(v_cache + at[:, None] + d[None, :], mask=(n < end)[:, None], other=0.0)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    source = qkv + row * (HQ + 2 * HK) * D
    q_at = source + (kv_head * GROUP + m)[:, None] * D + i[None, :]
    low = joined(q_at, live[:, None], apart, PARTS)
    high = joined(q_at + HALF, live[:, None], apart, PARTS)
    if BIAS:
        q_bias = bias + (kv_head * GROUP + m)[:, None] * D + i[None, :]
        low += tl.load(q_bias, mask=live[:, None], other=0.0).to(tl.float32)
        high += tl.load(q_bias + HALF, mask=live[:, None], other=0.0).to(tl.float32)
    if NORM:
        low, high = normed(low, high, q_norm, i, HALF, eps)
    q_low, q_high = turned(low, high, c[None, :], s[None, :])
    q_low = q_low.to(k_cache.dtype.element_ty)
    q_high = q_high.to(k_cache.dtype.element_ty)
    exponent = scale * 1.4426950408889634
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    if split == 0:
        new_key = source + (HQ + kv_head) * D
        key_low = joined(new_key + i, i < HALF, apart, PARTS)
        key_high = joined(new_key + HALF + i, i < HALF, apart, PARTS)
        value = joined(new_key + HK * D + d, d < D, apart, PARTS)
        if BIAS:
            k_bias = bias + (HQ + kv_head) * D
            key_low += tl.load(k_bias + i).to(tl.float32)
            key_high += tl.load(k_bias + HALF + i).to(tl.float32)
            value += tl.load(k_bias + HK * D + d).to(tl.float32)
        if NORM:
            key_low, key_high = normed(key_low, key_high, k_norm, i, HALF, eps)
        k_low, k_high = turned(key_low, key_high, c, s)
        k_low = k_low.to(k_cache.dtype.element_ty)
        k_high = k_high.to(k_cache.dtype.element_ty)
        v = value.to(v_cache.dtype.element_ty)
        tl.store(k_cache + new_at + i, k_low)
        tl.store(k_cache + new_at + HALF + i, k_high)
        tl.store(v_cache + new_at + d, v)
        top = tl.sum(q_low.to(tl.float32) * k_low.to(tl.float32)[None, :] + q_high.to(tl.float32) * k_high.to(tl.float32)[None, :], 1) * exponent
        total += 1.0
        acc += v.to(tl.float32)[None, :]
    if begin < end:
        q = halves(q_low, q_high, BM, D)
        there = n < end
        if WINDOW > 0:
            there &= n >= seen
        scores = tl.where(there[None, :], tl.dot(q, first_k, input_precision="ieee") * exponent, float("-inf"))
        top, p, fade = weighed(scores, top)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(first_v.dtype), first_v, acc * fade[:, None], input_precision="ieee")
        begin += FIRST
        whole = tl.maximum(begin, begin + (end - begin) // BN * BN)
        query = tl.zeros([BM], tl.int32)
        top, total, acc = attend(q, k_cache, v_cache, line, kv_head, position - 1, query, position, begin, whole, exponent, top, total, acc, 0, HK, D, PAGE, BN, False, False)
        top, total, acc = attend(q, k_cache, v_cache, line, kv_head, position - 1, query, position, whole, end, exponent, top, total, acc, 0, HK, D, PAGE, BN, True, False)
    head = kv_head * GROUP + m
    if SPLITS > 1:
        part = (split * tl.num_programs(1) + tile).to(tl.int64) * HQ + head
        tl.store(out + part[:, None] * D + d[None, :], acc, mask=live[:, None])
        tl.store(sums + part * 2, top, mask=live)
        tl.store(sums + part * 2 + 1, total, mask=live)
    else:
        tl.store(out + (row * HQ + head)[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty), mask=live[:, None])


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
