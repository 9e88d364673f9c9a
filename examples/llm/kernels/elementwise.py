"""What stands between matrix products: embedding, activations, cross-entropy, softmax."""
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
