"""What stands between matrix products: embedding, rotary positions with the KV cache's append, activations, cross-entropy, softmax."""
import tegula
import tegula.language as tl


@tegula.jit
def embedding(tokens, chosen, table, out, rounded, n, ROUNDED: tl.constexpr, BLOCK: tl.constexpr):
    """out[row] = table[tokens[row]]; n elements a row. Token -1 - i is chosen[i]. ROUNDED: `rounded` gets them in its type as well."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.load(tokens + row)
    token = tl.load(chosen + -1 - token, mask=token < 0, other=token).to(tl.int64)
    value = tl.load(table + token * n + i, mask=i < n, other=0.0)
    tl.store(out + row * n + i, value.to(out.dtype.element_ty), mask=i < n)
    if ROUNDED:
        tl.store(rounded + row * n + i, value.to(rounded.dtype.element_ty), mask=i < n)


@tegula.jit
def gather_rows(rows, x, delta, out, n, apart, ADD: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[rows[i]]: the last rows of sequences, whose logits are wanted. ADD parts of delta, `apart` elements from one to the next, are added, as in norms.py."""
    at = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + at).to(tl.int64)
    value = tl.load(x + row * n + i, mask=i < n, other=0.0)
    for part in tl.static_range(ADD):
        value += tl.load(delta + part * apart + row * n + i, mask=i < n, other=0.0)
    tl.store(out + at * n + i, value, mask=i < n)


@tegula.jit
def rope_append(qkv, q_out, k_cache, v_cache, cosines, sines, positions, slots, pages, max_pages,
                HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, HEADS: tl.constexpr, EARLY: tl.constexpr = False):
    """Rotates the queries and keys of a row by its position; queries go to q_out, keys and values to the row's place in the paged cache.

    qkv [rows, HQ + 2 HK, D]; element i of the first half of a head is turned with element i of the second (the order of Llama's weights in safetensors). A page
    holds PAGE tokens of all HK heads: cache [pages, HK, PAGE, D]. `slots` says which line of the page table a row's sequence has. Grid: rows, (HQ + 2 HK) / HEADS. EARLY as in gemv_fused (matmul.py).
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
    low = tl.load(source, mask=there, other=0.0).to(tl.float32)
    high = tl.load(source + HALF, mask=there, other=0.0).to(tl.float32)
    c = tl.load(cosines + position * HALF + i)[None, :]
    s = tl.load(sines + position * HALF + i)[None, :]
    turned_low = low * c - high * s
    turned_high = high * c + low * s
    is_query = (head < HQ)[:, None]
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
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@tegula.jit
def swiglu(gate_up, out, n, BLOCK: tl.constexpr):
    """out = silu(gate) * up; a row of gate_up holds n gates, then n ups."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(gate_up + row * 2 * n + i, mask=i < n, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * n + n + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out + row * n + i, (gate * sigmoid(gate) * up).to(out.dtype.element_ty), mask=i < n)


@tegula.jit
def bias_activation(x, bias, out, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """out = f(x + bias): "silu", "gelu" (by erf), "gelu_tanh"."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32) + tl.load(bias + i, mask=i < n, other=0.0).to(tl.float32)
    if KIND == "silu":
        v = v * sigmoid(v)
    elif KIND == "gelu":
        v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    else:
        tl.static_assert(KIND == "gelu_tanh", "KIND is silu, gelu or gelu_tanh")
        v = v * sigmoid(1.5957691216057308 * (v + 0.044715 * v * v * v))
    tl.store(out + row * n + i, v.to(out.dtype.element_ty), mask=i < n)


@tegula.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=i < n)


@tegula.jit
def cross_entropy(logits, targets, loss, n, ignore, BLOCK: tl.constexpr):
    """loss[row] = log(sum(exp(logits))) - logits[target], 0 where the target is `ignore`; the row is read once, its maximum carried along."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row).to(tl.int64)
    top = float("-inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(logits + row * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(v - higher), 0)
        top = higher
    if target == ignore:
        tl.store(loss + row, 0.0)
    else:
        tl.store(loss + row, top + tl.log(total) - tl.load(logits + row * n + target).to(tl.float32))
