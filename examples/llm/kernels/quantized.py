"""Weights of four and eight bits with a scale for each group of inputs, and their products with activations of 16 bits.

The layout is made for reading: what a program needs lies in one piece, in the order in which it is used. Columns (outputs) come in blocks of BN = 64, groups of G inputs
one after the other:

    q      [N / BN][K / G][G * BITS / 32][BN][4] bytes, scales [N / BN][K / G][BN] bf16

Four bits: byte (i, n, c) of a group holds input 4 i + c in its low half and input G / 2 + 4 i + c in its high half, both plus 8. Eight bits: it holds input 4 i + c. Four
inputs side by side are what instructions such as vpdpbusd multiply and add at once.
"""
import tegula
import tegula.language as tl

BN: tl.constexpr = tl.constexpr(64)


@tegula.jit
def quantize_weights(w, q, scales, N, K, G: tl.constexpr, BITS: tl.constexpr):
    """w [N, K] of any float type, to the layout above, symmetric: scale = max |w| / 7 or / 127, rounded to bf16 first. Rows from N on are zero. Grid: N / BN, K / G."""
    LEVELS: tl.constexpr = 7 if BITS == 4 else 127
    rn = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    rk = tl.arange(0, G)
    group = tl.program_id(0).to(tl.int64) * (K // G) + tl.program_id(1)
    v = tl.load(w + rn[None, :] * K + (tl.program_id(1) * G + rk)[:, None], mask=(rn < N)[None, :], other=0.0).to(tl.float32)
    scale = (tl.max(tl.abs(v), 0) / LEVELS).to(tl.bfloat16)
    tl.store(scales + group * BN + tl.arange(0, BN), scale)
    s = scale.to(tl.float32)
    v = tl.where(s[None, :] > 0, v / tl.where(s > 0, s, 1.0)[None, :], 0.0)
    v = tl.minimum(tl.maximum(tl.floor(v + 0.5), -LEVELS - 1.0), LEVELS + 0.0).to(tl.int32)
    if BITS == 4:
        halves = tl.reshape(v + 8, (2, G // 2, BN))
        v = tl.sum(halves * tl.where(tl.arange(0, 2) == 0, 1, 16)[:, None, None], 0)
    BYTES: tl.constexpr = G * BITS // 8
    ordered = tl.permute(tl.reshape(v, (BYTES // 4, 4, BN)), (0, 2, 1))
    tl.store(q + group * BYTES * BN + tl.arange(0, BYTES * BN), tl.reshape(ordered, (BYTES * BN,)).to(q.dtype.element_ty))


@tegula.jit
def group_bytes(q, group, G: tl.constexpr, BITS: tl.constexpr):
    """The bytes of a group, inputs by outputs: [G * BITS / 8, BN]."""
    BYTES: tl.constexpr = G * BITS // 8
    flat = tl.load(q + group * BYTES * BN + tl.arange(0, BYTES * BN))
    return tl.reshape(tl.permute(tl.reshape(flat, (BYTES // 4, BN, 4)), (0, 2, 1)), (BYTES, BN))


@tegula.jit
def dequantize_weights(q, scales, w, N, K, G: tl.constexpr, BITS: tl.constexpr):
    """Back to w [N, K]. Grid: N / BN, K / G."""
    rn = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    group = tl.program_id(0).to(tl.int64) * (K // G) + tl.program_id(1)
    s = tl.load(scales + group * BN + tl.arange(0, BN)).to(tl.float32)
    b = group_bytes(q, group, G, BITS)
    at = w + rn[None, :] * K + tl.program_id(1) * G
    if BITS == 4:
        rk = tl.arange(0, G // 2)
        low = ((b & 15).to(tl.int32) - 8).to(tl.float32) * s[None, :]
        high = ((b >> 4).to(tl.int32) - 8).to(tl.float32) * s[None, :]
        tl.store(at + rk[:, None], low.to(w.dtype.element_ty), mask=(rn < N)[None, :])
        tl.store(at + G // 2 + rk[:, None], high.to(w.dtype.element_ty), mask=(rn < N)[None, :])
    else:
        tl.store(at + tl.arange(0, G)[:, None], (b.to(tl.int8, bitcast=True).to(tl.float32) * s[None, :]).to(w.dtype.element_ty), mask=(rn < N)[None, :])


@tegula.jit
def split_activations(x, parts, scales, sums, K, G: tl.constexpr):
    """x [M, K] as integers of 16 bits in two bytes, with a scale for each group: x = scale * (256 * parts[m, 0] + parts[m, 1]).

    The error is at most 2^-16 of the group's largest element, a 128th of what rounding to bf16 does. parts [M, 2, K], scales and sums (of the integers) [M, K / G].
    Grid: M, K / G.
    """
    row = tl.program_id(0).to(tl.int64)
    g = tl.program_id(1)
    i = g * G + tl.arange(0, G)
    v = tl.load(x + row * K + i).to(tl.float32)
    largest = tl.max(tl.abs(v), 0)
    steps = tl.where(largest > 0, 32512.0 / largest, 0.0)
    n = tl.floor(v * steps + 0.5).to(tl.int32)
    high = (n + 128) >> 8
    tl.store(parts + row * 2 * K + i, high.to(tl.int8))
    tl.store(parts + row * 2 * K + K + i, (n - (high << 8)).to(tl.int8))
    tl.store(scales + row * (K // G) + g, largest * (1.0 / 32512.0))
    tl.store(sums + row * (K // G) + g, tl.sum(n, 0))


@tegula.jit
def integer_product(rows, live, x_scales, sums, alive, q, w_scales, column, K, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr):
    """[BM, BN]: rows of split activations times block `column` of the weights; each group's product is exact in int32, then scaled. rows, live [2 BM, 1]: both bytes of a row, one behind
    the other; x_scales, sums, alive [BM]: those of its first group."""
    place = tl.where(tl.arange(0, 2) == 0, 256.0, 1.0)
    acc = tl.zeros((BM, BN), tl.float32)
    for g in range(0, K // G):
        b = group_bytes(q, column * (K // G) + g, G, BITS)
        if BITS == 4:
            k = tl.arange(0, G // 2)
            product = tl.dot(tl.load(rows + g * G + k[None, :], mask=live, other=0), (b & 15).to(tl.int8), out_dtype=tl.int32)
            product = tl.dot(tl.load(rows + g * G + G // 2 + k[None, :], mask=live, other=0), (b >> 4).to(tl.int8), product, out_dtype=tl.int32)
        else:
            product = tl.dot(tl.load(rows + g * G + tl.arange(0, G)[None, :], mask=live, other=0), b.to(tl.int8, bitcast=True), out_dtype=tl.int32)
        both = tl.sum(tl.reshape(product.to(tl.float32), (BM, 2, BN)) * place[None, :, None], 1)
        if BITS == 4:
            both -= 8.0 * tl.load(sums + g, mask=alive, other=0).to(tl.float32)[:, None]
        sx = tl.load(x_scales + g, mask=alive, other=0.0)
        sw = tl.load(w_scales + (column * (K // G) + g) * BN + tl.arange(0, BN)).to(tl.float32)
        acc += both * (sx[:, None] * sw[None, :])
    return acc


@tegula.jit
def widened_product(rows, live, q, w_scales, column, K, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr):
    """The same with rows [BM, 1] of x in its own type: weights are widened to it in front of the product."""
    acc = tl.zeros((BM, BN), tl.float32)
    for g in range(0, K // G):
        b = group_bytes(q, column * (K // G) + g, G, BITS)
        if BITS == 4:
            k = tl.arange(0, G // 2)
            low = tl.load(rows + g * G + k[None, :], mask=live, other=0.0)
            high = tl.load(rows + g * G + G // 2 + k[None, :], mask=live, other=0.0)
            product = tl.dot(low, ((b & 15).to(tl.int32) - 8).to(low.dtype), input_precision="ieee")
            product = tl.dot(high, ((b >> 4).to(tl.int32) - 8).to(high.dtype), product, input_precision="ieee")
        else:
            a = tl.load(rows + g * G + tl.arange(0, G)[None, :], mask=live, other=0.0)
            product = tl.dot(a, b.to(tl.int8, bitcast=True).to(a.dtype), input_precision="ieee")
        sw = tl.load(w_scales + (column * (K // G) + g) * BN + tl.arange(0, BN)).to(tl.float32)
        acc += product * sw[None, :]
    return acc


@tegula.jit(do_not_specialize=["M"])
def integer_matmul(parts, x_scales, sums, q, w_scales, out, M, N, K, stride, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr):
    """out = x @ w.T of split activations and quantized weights. For CPUs, whose instructions multiply bytes four at a time; at one row the weights come as fast as memory gives them.
    BM rows of x at a time. Grid: M / BM, N / BN; rows of `out` lie `stride` apart."""
    first = tl.program_id(0) * BM
    column = tl.program_id(1).to(tl.int64)
    r = tl.arange(0, 2 * BM)
    m = first + tl.arange(0, BM)
    rows = parts + (2 * first + r)[:, None].to(tl.int64) * K
    live = (2 * first + r < 2 * M)[:, None]
    acc = integer_product(rows, live, x_scales + m * (K // G), sums + m * (K // G), m < M, q, w_scales, column, K, G, BITS, BM)
    rn = column * BN + tl.arange(0, BN)
    tl.store(out + m[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=(m < M)[:, None] & (rn < N)[None, :])


@tegula.jit(do_not_specialize=["M"])
def widened_matmul(x, q, w_scales, out, M, N, K, stride, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr):
    """The same with x [M, K] in its own type. For GPUs, whose tensor cores take 16-bit floats. Grid: M / BM, N / BN."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1).to(tl.int64)
    rows = x + m[:, None].to(tl.int64) * K
    acc = widened_product(rows, (m < M)[:, None], q, w_scales, column, K, G, BITS, BM)
    rn = column * BN + tl.arange(0, BN)
    tl.store(out + m[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=(m < M)[:, None] & (rn < N)[None, :])


@tegula.jit
def grouped_integer_matmul(parts, x_scales, sums, q, w_scales, out, order, tile_experts, N, K, stride, EACH: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr):
    """integer_matmul of experts: out[choice] = x[choice // EACH] @ w[expert].T for the BM lines of a tile of moe_align (moe.py), whose grouped_matmul says what EACH is. The experts'
    weights, each in whole blocks of BN outputs, lie one behind the other. Grid: slots / BM, N / BN."""
    expert = tl.load(tile_experts + tl.program_id(0))
    if expert >= 0:
        r = tl.arange(0, 2 * BM)
        choice = tl.load(order + tl.program_id(0) * BM + tl.arange(0, BM))
        both = tl.load(order + tl.program_id(0) * BM + r // 2)
        rows = parts + (tl.maximum(both, 0) // EACH * 2 + r % 2)[:, None].to(tl.int64) * K
        at = tl.maximum(choice, 0) // EACH * (K // G)
        column = expert.to(tl.int64) * tl.cdiv(N, BN) + tl.program_id(1)
        acc = integer_product(rows, (both >= 0)[:, None], x_scales + at, sums + at, choice >= 0, q, w_scales, column, K, G, BITS, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        tl.store(out + choice[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=(choice >= 0)[:, None] & (rn < N)[None, :])


@tegula.jit
def grouped_widened_matmul(x, q, w_scales, out, order, tile_experts, N, K, stride, EACH: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr):
    """widened_matmul of experts, likewise. Grid: slots / BM, N / BN."""
    expert = tl.load(tile_experts + tl.program_id(0))
    if expert >= 0:
        choice = tl.load(order + tl.program_id(0) * BM + tl.arange(0, BM))
        rows = x + (tl.maximum(choice, 0) // EACH)[:, None].to(tl.int64) * K
        column = expert.to(tl.int64) * tl.cdiv(N, BN) + tl.program_id(1)
        acc = widened_product(rows, (choice >= 0)[:, None], q, w_scales, column, K, G, BITS, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        tl.store(out + choice[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=(choice >= 0)[:, None] & (rn < N)[None, :])


@tegula.jit
def lines_of(q, w_scales, block, column, g, K, G: tl.constexpr, BITS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """ROWS lines of COLS outputs from group g of a block on, four bytes of an output (four or eight inputs) in a word, and their scales, two in a word: [ROWS, COLS].

    Each output's own word of scales is asked for: a thread has the scales of the outputs of its lines then. Loaded as bf16, eight in a row, they would have to change threads."""
    LINES: tl.constexpr = G * BITS // 32  # of a group
    at = block.to(tl.int64) * (K // G) + g
    r = tl.arange(0, ROWS)
    n = column + tl.arange(0, COLS)
    words = q.to(tl.pointer_type(tl.int32)) + at * (LINES * BN)
    pairs = w_scales.to(tl.pointer_type(tl.int32)) + at * (BN // 2)
    return tl.load(words + r[:, None] * BN + n[None, :], eviction_policy="evict_first"), tl.load(pairs + (r // LINES)[:, None] * (BN // 2) + (n // 2)[None, :])


@tegula.jit
def scales_of(pairs, COLS: tl.constexpr):
    return tl.where((tl.arange(0, COLS) % 2 == 0)[None, :], pairs << 16, pairs & -65536).to(tl.float32, bitcast=True)


@tegula.jit
def level(words, form, c: tl.constexpr, BITS: tl.constexpr):
    """The c-th of the levels in each word (of eight bits plus 128), times 2^(c * BITS % 16), as a float. Its bits become low ones of the mantissa of `form` = 2^23, which is exact and costs a
    logical operation and a subtraction; conversions of bytes are slow on GPUs."""
    AT: tl.constexpr = c * BITS % 16
    half = words >> 16 if c * BITS >= 16 else words
    return ((half & ((2**BITS - 1) << AT)) | form).to(tl.float32, bitcast=True) - (8388608.0 + 2**(BITS - 1 + AT))


@tegula.jit
def two_inputs(at):
    """Two neighbours of a row of x, in fp32; of bf16 both come in a word."""
    if at.dtype.element_ty == tl.bfloat16:
        both = tl.load(at.to(tl.pointer_type(tl.int32)))
        return (both << 16).to(tl.float32, bitcast=True), (both & -65536).to(tl.float32, bitcast=True)
    return tl.load(at).to(tl.float32), tl.load(at + 1).to(tl.float32)


@tegula.jit
def widened_sums(inputs, words, up_words, form, G: tl.constexpr, BITS: tl.constexpr, PAIR: tl.constexpr):
    """Lines of words times the inputs of their lines (for each row of x a tile of pointers), before the scale, and with PAIR of others times the same: a tuple of [ROWS, COLS] for each row."""
    acc = ()
    ups = ()
    for m in tl.static_range(len(inputs)):
        acc += (tl.zeros(words.shape, tl.float32), )
        ups += (tl.zeros(words.shape, tl.float32), )
    if BITS == 8:  # two's complements, plus 128
        words ^= -2139062144
        up_words ^= -2139062144
    PARTS: tl.constexpr = 8 // BITS  # of a byte: the low half is an input of the group's first half, the high half one of the second
    for c in tl.static_range(0, 4, 2):
        for part in tl.static_range(PARTS):
            for m in tl.static_range(len(inputs)):
                a, b = two_inputs(inputs[m] + c + part * (G // 2))
                a *= 2.0**-((c * PARTS + part) * BITS % 16)
                b *= 2.0**-((c * PARTS + PARTS + part) * BITS % 16)
                acc = acc[:m] + (acc[m] + a * level(words, form, c * PARTS + part, BITS) + b * level(words, form, c * PARTS + PARTS + part, BITS), ) + acc[m + 1:]
                if PAIR:
                    ups = ups[:m] + (ups[m] + a * level(up_words, form, c * PARTS + part, BITS) + b * level(up_words, form, c * PARTS + PARTS + part, BITS), ) + ups[m + 1:]
    return acc, ups


@tegula.jit(do_not_specialize=["M"])
def widened_gemv(x, q, w_scales, up_q, up_scales, out, experts, M, N, K, stride, PAIR: tl.constexpr, EACH: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr,
                 ROWS: tl.constexpr, COLS: tl.constexpr):
    """Few rows of x on GPUs: out[m] = x[m] @ w.T, or silu(x[m] @ w.T) * (x[m] @ up.T) with PAIR. EACH > 0: of experts: out[choice] of x[choice // EACH] and the matrix experts[choice], of M choices.
    A program reads the lines of COLS outputs, a part of a block, for BM rows (1 of experts), and has the next ROWS of them under way while it multiplies. K / G is a multiple of the groups in ROWS.
    Grid: M / BM, N / COLS."""
    LINES: tl.constexpr = G * BITS // 32
    STEP: tl.constexpr = ROWS // LINES
    first = tl.program_id(0) * BM
    block = tl.program_id(1) // (BN // COLS)
    column = tl.program_id(1) % (BN // COLS) * COLS
    rn = tl.program_id(1) * COLS + tl.arange(0, COLS)
    if EACH > 0:
        block += tl.load(experts + first) * tl.cdiv(N, BN)
    r = tl.arange(0, ROWS)
    inputs = ()
    acc = ()
    ups = ()
    for m in tl.static_range(BM):
        row = tl.minimum(first + m, M - 1)
        if EACH > 0:
            row //= EACH
        inputs += (tl.broadcast_to(x + row.to(tl.int64) * K + (r // LINES * G + r % LINES * 4)[:, None], (ROWS, COLS)), )
        acc += (tl.zeros((ROWS, COLS), tl.float32), )
        ups += (tl.zeros((ROWS, COLS), tl.float32), )
    form = tl.minimum(K, 0) + 0x4B000000  # in a register: a constant would make each level two logical operations
    words, s = lines_of(q, w_scales, block, column, 0, K, G, BITS, ROWS, COLS)
    up_words, up_s = words, s
    if PAIR:
        up_words, up_s = lines_of(up_q, up_scales, block, column, 0, K, G, BITS, ROWS, COLS)
    for g in range(0, K // G, STEP):
        sums, up_sums = widened_sums(inputs, words, up_words, form, G, BITS, PAIR)
        scale, up_scale = scales_of(s, COLS), scales_of(up_s, COLS)
        following = tl.minimum(g + STEP, K // G - STEP)
        words, s = lines_of(q, w_scales, block, column, following, K, G, BITS, ROWS, COLS)
        if PAIR:
            up_words, up_s = lines_of(up_q, up_scales, block, column, following, K, G, BITS, ROWS, COLS)
        for m in tl.static_range(BM):
            acc = acc[:m] + (acc[m] + sums[m] * scale, ) + acc[m + 1:]
            if PAIR:
                ups = ups[:m] + (ups[m] + up_sums[m] * up_scale, ) + ups[m + 1:]
            inputs = inputs[:m] + (inputs[m] + STEP * G, ) + inputs[m + 1:]
    for m in tl.static_range(BM):
        result = tl.sum(acc[m], 0)
        if PAIR:
            result = result / (1.0 + tl.exp(-result)) * tl.sum(ups[m], 0)
        tl.store(out + (first + m).to(tl.int64) * stride + rn, result.to(out.dtype.element_ty), mask=(rn < N) & (first + m < M))


@tegula.jit
def pairs(words, form, at: tl.constexpr, BITS: tl.constexpr, to: tl.constexpr):
    """Two levels of each word, as floats: of four bits those at bits `at` and `at` + 16, of eight bits (plus 128) bytes 2 * at and 2 * at + 1; two tiles. Bits of a level become low ones of the
    mantissa of `form`, 128 as two bf16 and 2^23 as fp32: exact, and quicker than a conversion."""
    if BITS == 4 and to == tl.bfloat16:
        both = ((words >> at) & 0x000F000F) | form
        low = both.to(tl.int16).to(to, bitcast=True) - 136.0
        high = (both >> 16).to(tl.int16).to(to, bitcast=True) - 136.0
    elif BITS == 4:
        low = ((words >> at) & 15) - 8
        high = ((words >> (at + 16)) & 15) - 8
    else:
        low = (((words >> (16 * at)) & 255) | form).to(tl.float32, bitcast=True) - 8388736.0
        high = (((words >> (16 * at + 8)) & 255) | form).to(tl.float32, bitcast=True) - 8388736.0
    return low.to(to), high.to(to)


@tegula.jit
def places(x0, x1, y0, y1, STEP: tl.constexpr, LINES: tl.constexpr, COLS: tl.constexpr):
    """[STEP, 4 LINES, COLS] of two pairs of each of LINES words: place 16 j + 8 h + 2 t + e has element e of pair h of word 4 j + t. So a thread that has a word has what an mma wants of it."""
    both = tl.join(tl.join(x0, y0), tl.join(x1, y1))  # [STEP, LINES, COLS, h, e]
    return tl.reshape(tl.permute(tl.reshape(both, (STEP, LINES // 4, 4, COLS, 2, 2)), (0, 1, 4, 2, 5, 3)), (STEP, LINES * 4, COLS))


@tegula.jit
def placed(a, STEP: tl.constexpr, BM: tl.constexpr, INPUTS: tl.constexpr, BITS: tl.constexpr):
    """Rows of x in the same places."""
    a = tl.reshape(a, (STEP, BM, INPUTS // 16, 4, 2, 2))
    if BITS == 4:
        a = tl.permute(a, (0, 1, 2, 5, 3, 4))  # the input 4 t + h + 2 e
    else:
        a = tl.permute(a, (0, 1, 2, 4, 3, 5))  # 4 t + 2 h + e
    return tl.reshape(a, (STEP, BM, INPUTS))


@tegula.jit
def word_sums(low, high, words, form, STEP: tl.constexpr, BM: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr, COLS: tl.constexpr):
    """[STEP, BM, COLS]: of each group the product of rows (for four bits of the halves of the group) and weights, before the scale."""
    LINES: tl.constexpr = G * BITS // 32
    INPUTS: tl.constexpr = G * BITS // 8
    if BITS == 8:  # two's complements, plus 128
        words ^= -2139062144
    a, b = pairs(words, form, 0, BITS, low.dtype)
    c, d = pairs(words, form, 8 if BITS == 4 else 1, BITS, low.dtype)
    sums = tl.dot(placed(low, STEP, BM, INPUTS, BITS), places(a, b, c, d, STEP, LINES, COLS), input_precision="ieee")
    if BITS == 4:
        a, b = pairs(words, form, 4, BITS, low.dtype)
        c, d = pairs(words, form, 12, BITS, low.dtype)
        sums = tl.dot(placed(high, STEP, BM, INPUTS, BITS), places(a, b, c, d, STEP, LINES, COLS), sums, input_precision="ieee")
    return sums


@tegula.jit(do_not_specialize=["M"])
def shared_matmul(x, q, w_scales, up_q, up_scales, out, M, N, K, stride, height, PAIR: tl.constexpr, SPLITS: tl.constexpr, G: tl.constexpr, BITS: tl.constexpr, BM: tl.constexpr,
                  STEP: tl.constexpr, COLS: tl.constexpr):
    """Some rows of x on GPUs with tensor cores: out = x @ w.T, or silu(x @ w.T) * (x @ up.T) with PAIR. A dot has a batch for each of STEP groups, so that warps share the inputs and meet for the
    last sum only; weights go from where they are copied to through registers to the tensor cores. SPLITS programs share the inputs of a tile, too, each with a result of its own, `height` rows apart.
    K / G is a multiple of STEP * SPLITS. Grid: M / BM, N / COLS, SPLITS."""
    LINES: tl.constexpr = G * BITS // 32
    INPUTS: tl.constexpr = G * BITS // 8
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    block = (tl.program_id(1) // (BN // COLS)).to(tl.int64)
    each = K // G // SPLITS
    first = block * (K // G) + tl.program_id(2) * each
    n = tl.program_id(1) % (BN // COLS) * COLS + tl.arange(0, COLS)
    step = tl.arange(0, STEP)[:, None, None]
    live = (m < M)[None, :, None]
    rows = x + m[None, :, None].to(tl.int64) * K + tl.program_id(2) * each * G + step * G + tl.arange(0, INPUTS)[None, None, :]
    lines = first * (LINES * BN) + step * (LINES * BN) + tl.arange(0, LINES)[None, :, None] * BN + n[None, None, :]
    scales = first * BN + step * BN + n[None, None, :]
    form = tl.minimum(K, 0) + (0x43004300 if BITS == 4 else 0x4B000000)  # in a register, as in widened_gemv
    acc = tl.zeros((STEP, BM, COLS), tl.float32)
    ups = tl.zeros((STEP, BM, COLS), tl.float32)
    for g in range(0, each, STEP):
        low = tl.load(rows + g * G, mask=live, other=0.0)
        high = low
        if BITS == 4:
            high = tl.load(rows + g * G + INPUTS, mask=live, other=0.0)
        words = tl.load(q.to(tl.pointer_type(tl.int32)) + lines + g * (LINES * BN))
        acc += word_sums(low, high, words, form, STEP, BM, G, BITS, COLS) * tl.load(w_scales + scales + g * BN).to(tl.float32)
        if PAIR:
            words = tl.load(up_q.to(tl.pointer_type(tl.int32)) + lines + g * (LINES * BN))
            ups += word_sums(low, high, words, form, STEP, BM, G, BITS, COLS) * tl.load(up_scales + scales + g * BN).to(tl.float32)
    result = tl.sum(acc, 0)
    if PAIR:
        result = result / (1.0 + tl.exp(-result)) * tl.sum(ups, 0)
    rn = tl.program_id(1) * COLS + tl.arange(0, COLS)
    at = out + (tl.program_id(2) * height + m)[:, None].to(tl.int64) * stride + rn[None, :]
    tl.store(at, result.to(out.dtype.element_ty), mask=(m < M)[:, None] & (rn < N)[None, :])
