"""Matrix products with weights as they lie in safetensors files: w [N, K], row by row; out = x @ w.T with x [M, K]."""
import tegula
import tegula.language as tl


@tegula.jit
def products(row, w, rn, k, N, K):
    """The inputs k of a row of x times those of the rows rn of w, in fp32; zeros where there are none."""
    a = tl.load(row + k, mask=k < K, other=0.0).to(tl.float32)
    b = tl.load(w + rn[:, None].to(tl.int64) * K + k[None, :], mask=(rn[:, None] < N) & (k < K)[None, :], other=0.0).to(tl.float32)
    return a[None, :] * b


@tegula.jit(do_not_specialize=["M"])
def gemv(x, w, out, M, N, K, stride, BN: tl.constexpr, BK: tl.constexpr, WHOLE: tl.constexpr = False):
    """Few rows of x: the weights are read once, from memory, and this bounds the time. Grid: M, N / BN; the programs of one tile of w run one after the other and find it in the cache.

    WHOLE, for CPUs: BK is K at least, so that each row of w is read from end to end and its sums stay in registers. Without it BK inputs at a time, whose sums are added up at the end.
    Rows of `out` lie `stride` apart (a part of a wider row may be written)."""
    m = tl.program_id(0).to(tl.int64)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    if WHOLE:
        result = tl.sum(products(x + m * K, w, rn, rk, N, K), 1)
    else:
        acc = tl.zeros((BN, BK), tl.float32)
        for k in range(0, K, BK):
            acc += products(x + m * K, w, rn, k + rk, N, K)
        result = tl.sum(acc, 1)
    tl.store(out + m * stride + rn, result.to(out.dtype.element_ty), mask=rn < N)


@tegula.jit(do_not_specialize=["M"])
def matmul(x, w, out, M, N, K, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Many rows of x, by tiles. x and w have one type, or x is converted to w's."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rm[:, None].to(tl.int64) * K + (k + rk)[None, :], mask=(rm < M)[:, None] & (k + rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :].to(tl.int64) * K + (k + rk)[:, None], mask=(rn < N)[None, :] & (k + rk < K)[:, None], other=0.0)
        acc = tl.dot(a.to(b.dtype), b, acc, input_precision="ieee")
    tl.store(out + rm[:, None].to(tl.int64) * stride + rn[None, :], acc.to(out.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


@tegula.jit
def gemv_fused(x, scales, w, out, rounded, N, K, eps, NORM: tl.constexpr, ADD: tl.constexpr, PAIR: tl.constexpr, EARLY: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, AHEAD: tl.constexpr = 1):
    """One row of x, with what stands around a product in a decoder: NORM: of RMSNorm(x) with these scales; PAIR: w [2 N, K] has N gates, then N ups, and silu(gate) * up is the
    result; ADD: out += result, and `rounded` becomes the sum in its type. The sum of the squares of x is found on the way. EARLY: launched with programmatic_launch, it waits for the
    kernel before it when its first weights are on their way. AHEAD: tiles of BK inputs whose weights are under way at once. Grid: N / BN; K is a multiple of BK * AHEAD.

    Where x, scales and w have one type, a thread reads the same places of all of them, so that nothing goes through shared memory in the loop. Weights are read once, and leave the
    caches first: x and scales, which every program reads, stay."""
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    live = (rn < N)[:, None]
    rows = w + rn[:, None].to(tl.int64) * K + rk[None, :]
    second = N.to(tl.int64) * K  # of the ups
    # Eight neighbours, which one thread has, are added at once: fewer registers, more programs at the same time.
    acc = tl.zeros((BN, BK // 8), tl.float32)
    up_acc = tl.zeros((BN, BK // 8), tl.float32)
    squares = tl.zeros((BN, BK // 8), tl.float32)
    weights = ()
    ups = ()
    for j in tl.static_range(AHEAD):
        weights = weights + (tl.load(rows + j * BK, mask=live, other=0.0, eviction_policy="evict_first"), )
        if PAIR:
            ups = ups + (tl.load(rows + second + j * BK, mask=live, other=0.0, eviction_policy="evict_first"), )
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    for first in range(0, K, BK * AHEAD):
        for j in tl.static_range(AHEAD):
            k = first + j * BK
            a = tl.load(tl.broadcast_to(x + k + rk[None, :], (BN, BK))).to(tl.float32)
            if NORM:
                squares += tl.sum(tl.reshape(a * a, (BN, BK // 8, 8)), 2)
                a *= tl.load(tl.broadcast_to(scales + k + rk[None, :], (BN, BK))).to(tl.float32)
            acc += tl.sum(tl.reshape(a * weights[0].to(tl.float32), (BN, BK // 8, 8)), 2)
            if PAIR:
                up_acc += tl.sum(tl.reshape(a * ups[0].to(tl.float32), (BN, BK // 8, 8)), 2)
            following = k + BK * AHEAD
            more = live & (following < K)
            weights = weights[1:] + (tl.load(rows + following, mask=more, other=0.0, eviction_policy="evict_first"), )
            if PAIR:
                ups = ups[1:] + (tl.load(rows + second + following, mask=more, other=0.0, eviction_policy="evict_first"), )
    result = tl.sum(acc, 1)
    factor = tl.full((BN, ), 1.0, tl.float32)
    if NORM:
        factor = tl.rsqrt(tl.sum(squares, 1) / K + eps)
        result *= factor
    if PAIR:
        result = result / (1.0 + tl.exp(-result)) * (tl.sum(up_acc, 1) * factor)
    if ADD:
        result += tl.load(out + rn, mask=rn < N, other=0.0).to(tl.float32)
        tl.store(rounded + rn, result.to(rounded.dtype.element_ty), mask=rn < N)
    tl.store(out + rn, result.to(out.dtype.element_ty), mask=rn < N)


@tegula.jit
def prefetch_rows(w, first, N, K, BN: tl.constexpr, AHEAD: tl.constexpr):
    """Asks for the first AHEAD inputs (a power of two) of BN rows of w [N, K] from `first` on to be brought to the L2 cache, in lines of 128 bytes. Nothing waits for them."""
    line: tl.constexpr = 1024 // w.dtype.element_ty.primitive_bitwidth
    row = tl.minimum(first + tl.arange(0, BN), N - 1)
    column = tl.minimum(tl.arange(0, AHEAD // line) * line, K - 1)
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [w + row[:, None].to(tl.int64) * K + column[None, :]], tl.int32, is_pure=False, pack=1)


@tegula.jit(do_not_specialize=["M", "height"])
def tiled_matmul(x, w, out, M, N, K, stride, height, ADD: tl.constexpr, PAIR: tl.constexpr, EARLY: tl.constexpr, SPLITS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 LINES: tl.constexpr, AHEAD: tl.constexpr = 0, MORE: tl.constexpr = 0, LOW: tl.constexpr = 0):
    """x @ w.T by tiles that descriptors bring, for GPUs; x and w have one 16-bit type. PAIR, ADD and EARLY as in gemv_fused. Programs go over the tiles, LINES lines of tiles at a time, so that
    those that run together share what they read. SPLITS > 1: so many programs have parts of the inputs of a tile, and `out` gets a result of each, M rounded up to BM rows apart, for the kernel
    that adds them in their order (norms.py). AHEAD: with EARLY and one line of tiles, so many inputs of a program's weights are on their way to L2 while it waits for the kernel before it.
    MORE: without PAIR, a tile has so many outputs beside its BN, and with LOW also so many rows below its BM, so that its sizes are no powers of two and tiles are about as many as multiprocessors.
    `height`: rows of out. Grid: as many as the GPU has multiprocessors, or tiles."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        if AHEAD > 0:
            first = tl.program_id(0) // SPLITS * BN
            prefetch_rows(w, first, N, K, BN, AHEAD)
            if PAIR:
                prefetch_rows(w, N + first, 2 * N, K, BN, AHEAD)
        tl.extra.cuda.gdc_wait()
    x_blocks = tl.make_tensor_descriptor(x, [M, K], [K, 1], [BM, BK])
    w_blocks = tl.make_tensor_descriptor(w, [N * (1 + PAIR), K], [K, 1], [BN, BK])
    grid_m = tl.cdiv(M, BM + LOW)
    grid_n = tl.cdiv(N, BN + MORE)
    out_blocks = tl.make_tensor_descriptor(out, [height, N], [stride, 1], [BM, BN])
    if MORE > 0:
        more_blocks = tl.make_tensor_descriptor(w, [N, K], [K, 1], [MORE, BK])
        more_out = tl.make_tensor_descriptor(out, [height, N], [stride, 1], [BM, MORE])
    if LOW > 0:
        tl.static_assert(MORE > 0 and not PAIR and not ADD, "LOW wants MORE, and a result that is stored")
        low_blocks = tl.make_tensor_descriptor(x, [M, K], [K, 1], [LOW, BK])
        low_out = tl.make_tensor_descriptor(out, [height, N], [stride, 1], [LOW, BN])
        corner_out = tl.make_tensor_descriptor(out, [height, N], [stride, 1], [LOW, MORE])
    width = LINES * grid_n
    blocks = tl.cdiv(K, BK * SPLITS)  # of the inputs; what is behind K reads as zero
    for each in tl.range(tl.program_id(0), grid_m * grid_n * SPLITS, tl.num_programs(0), flatten=True):
        tile = each // SPLITS
        begin = each % SPLITS * blocks
        above = tile // width * LINES
        size = min(grid_m - above, LINES)
        m = (above + tile % width % size) * (BM + LOW)
        n = tile % width // size * (BN + MORE)
        acc = tl.zeros((BM, BN), tl.float32)
        if PAIR:
            ups = tl.zeros((BM, BN), tl.float32)
            for k in range(begin, begin + blocks):
                a = x_blocks.load([m, k * BK])
                acc = tl.dot(a, w_blocks.load([n, k * BK]).T, acc)
                ups = tl.dot(a, w_blocks.load([N + n, k * BK]).T, ups)
            acc = acc / (1.0 + tl.exp(-acc)) * ups
        elif LOW > 0:
            beside = tl.zeros((BM, MORE), tl.float32)
            below = tl.zeros((LOW, BN), tl.float32)
            corner = tl.zeros((LOW, MORE), tl.float32)
            for k in range(begin, begin + blocks):
                a = x_blocks.load([m, k * BK])
                low = low_blocks.load([m + BM, k * BK])
                b = w_blocks.load([n, k * BK]).T
                more = more_blocks.load([n + BN, k * BK]).T
                acc = tl.dot(a, b, acc)
                beside = tl.dot(a, more, beside)
                below = tl.dot(low, b, below)
                corner = tl.dot(low, more, corner)
        elif MORE > 0:
            beside = tl.zeros((BM, MORE), tl.float32)
            for k in range(begin, begin + blocks):
                a = x_blocks.load([m, k * BK])
                acc = tl.dot(a, w_blocks.load([n, k * BK]).T, acc)
                beside = tl.dot(a, more_blocks.load([n + BN, k * BK]).T, beside)
        else:
            for k in range(begin, begin + blocks):
                acc = tl.dot(x_blocks.load([m, k * BK]), w_blocks.load([n, k * BK]).T, acc)
        if ADD:
            out_blocks.atomic_add([m, n], acc.to(out.dtype.element_ty))  # one addition to each element, so the result is the same every time
            if MORE > 0:
                more_out.atomic_add([m, n + BN], beside.to(out.dtype.element_ty))
        else:
            if SPLITS > 1:
                m += each % SPLITS * grid_m * (BM + LOW)
            out_blocks.store([m, n], acc.to(out.dtype.element_ty))
            if MORE > 0:
                more_out.store([m, n + BN], beside.to(out.dtype.element_ty))
            if LOW > 0:
                low_out.store([m + BM, n], below.to(out.dtype.element_ty))
                corner_out.store([m + BM, n + BN], corner.to(out.dtype.element_ty))


@tegula.jit(do_not_specialize=["M"])
def fp8_matmul(x, w, x_scale, w_scale, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """fp8 x fp8 in fp32, scaled by the rows of x and of w (the columns of the result)."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rm[:, None].to(tl.int64) * K + (k + rk)[None, :], mask=(rm < M)[:, None] & (k + rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :].to(tl.int64) * K + (k + rk)[:, None], mask=(rn < N)[None, :] & (k + rk < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    sx = tl.load(x_scale + rm, mask=rm < M, other=0.0)
    sw = tl.load(w_scale + rn, mask=rn < N, other=0.0)
    tl.store(out + rm[:, None].to(tl.int64) * N + rn[None, :], (acc * sx[:, None] * sw[None, :]).to(out.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])
