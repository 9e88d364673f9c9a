"""Rows and elements by index, histograms, transposes, sorting."""
import triton
import triton.language as tl
from zoo.table import Entry, Launch, cdiv, configs, next_power_of_2, shapes


@triton.jit
def embedding(ids_ptr, table_ptr, out_ptr, n, D: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    cols = tl.program_id(1) * BD + tl.arange(0, BD)
    ids = tl.load(ids_ptr + rows, mask=rows < n, other=0)
    mask = (rows[:, None] < n) & (cols[None, :] < D)
    v = tl.load(table_ptr + ids[:, None].to(tl.int64) * D + cols[None, :], mask=mask)
    tl.store(out_ptr + rows[:, None].to(tl.int64) * D + cols[None, :], v, mask=mask)


@triton.jit
def embedding_row(ids_ptr, table_ptr, out_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    source = tl.load(ids_ptr + row).to(tl.int64)
    for off in range(0, D, BLOCK):
        c = off + tl.arange(0, BLOCK)
        tl.store(out_ptr + row * D + c, tl.load(table_ptr + source * D + c, mask=c < D), mask=c < D)


@triton.jit
def add_rows(ids_ptr, x_ptr, out_ptr, n, D, BR: tl.constexpr, BD: tl.constexpr):
    """out[ids[i]] += x[i] by atomics: the gradient of an embedding, and index_add."""
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    cols = tl.program_id(1) * BD + tl.arange(0, BD)
    ids = tl.load(ids_ptr + rows, mask=rows < n, other=0).to(tl.int64)
    mask = (rows[:, None] < n) & (cols[None, :] < D)
    x = tl.load(x_ptr + rows[:, None] * D + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + ids[:, None] * D + cols[None, :], x, mask=mask, sem="relaxed")


@triton.jit
def scatter_rows(ids_ptr, x_ptr, out_ptr, n, D, BR: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    cols = tl.program_id(1) * BD + tl.arange(0, BD)
    ids = tl.load(ids_ptr + rows, mask=rows < n, other=0).to(tl.int64)
    mask = (rows[:, None] < n) & (cols[None, :] < D)
    v = tl.load(x_ptr + rows[:, None].to(tl.int64) * D + cols[None, :], mask=mask)
    tl.store(out_ptr + ids[:, None] * D + cols[None, :], v, mask=mask)


@triton.jit
def gather_elements(x_ptr, index_ptr, out_ptr, cols, picked, BLOCK: tl.constexpr):
    """out[r, i] = x[r, index[r, i]], by addresses."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(index_ptr + row * picked + c, mask=c < picked, other=0)
    tl.store(out_ptr + row * picked + c, tl.load(x_ptr + row * cols + i, mask=c < picked), mask=c < picked)


@triton.jit
def gather_in_tile(x_ptr, index_ptr, out_ptr, cols: tl.constexpr, picked: tl.constexpr, BR: tl.constexpr):
    """The same with the row in registers, by tl.gather."""
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    x = tl.load(x_ptr + r[:, None] * cols + tl.arange(0, cols)[None, :])
    i = tl.load(index_ptr + r[:, None] * picked + tl.arange(0, picked)[None, :])
    tl.store(out_ptr + r[:, None] * picked + tl.arange(0, picked)[None, :], tl.gather(x, i, 1))


@triton.jit
def histogram_blocks(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros([BINS], tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0)
        counts += tl.histogram(x, BINS, mask=at < n)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts)


@triton.jit
def histogram_atomics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_add(out_ptr + x, 1, mask=at < n)


@triton.jit
def transpose_tiles(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=(n[:, None] < N) & (m[None, :] < M))


@triton.jit
def transpose_by_strides(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Without a word: read along one stride, written along the other."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + n[None, :] * M + m[:, None], tl.load(x_ptr + m[:, None] * N + n[None, :], mask=mask), mask=mask)


@triton.jit
def transpose_block_pointers(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    x = tl.load(tl.make_block_ptr(x_ptr, (M, N), (N, 1), (m, n), (BM, BN), (1, 0)), boundary_check=(0, 1))
    tl.store(tl.make_block_ptr(out_ptr, (N, M), (M, 1), (n, m), (BN, BM), (1, 0)), x.T, boundary_check=(0, 1))


@triton.jit
def transpose_descriptors(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    out = tl.make_tensor_descriptor(out_ptr, [N, M], [M, 1], [BN, BM])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    out.store([n, m], x.load([m, n]).T)


@triton.jit
def top_k(x_ptr, out_ptr, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-float("inf")).to(tl.float32)
    tl.store(out_ptr + row * K + tl.arange(0, K), tl.topk(x, K))


@triton.jit
def top_k_by_turns(x_ptr, out_ptr, index_ptr, cols, K: tl.constexpr, BLOCK: tl.constexpr):
    """The largest, and it is taken out, K times: as routers of experts do it."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-float("inf")).to(tl.float32)
    for i in tl.static_range(K):
        at = tl.argmax(x, axis=0)
        tl.store(out_ptr + row * K + i, tl.max(x, axis=0))
        tl.store(index_ptr + row * K + i, at)
        x = tl.where(c == at, -float("inf"), x)


@triton.jit
def sort_rows(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("inf"))
    tl.store(out_ptr + row * cols + c, tl.sort(x), mask=c < cols)


WARPS = configs("num_warps", 4, 8, 16, 32)
FEW_WARPS = configs("num_warps", 1, 2, 4, 8)
TWO = ("bf16", "fp32")
TABLE = shapes("V n D", (128256, 32768, 4096), (32000, 65536, 1024))
SMALL_TABLE = shapes("V n D", (50, 21, 72))
TILES = configs("BR BD num_warps", (4, 64, 4), (1, 1024, 4), (8, 512, 4), (16, 256, 8), (32, 128, 4))


def table_inputs(m, s, t):
    return dict(ids=m.integers((s.n,), 0, s.V, "int64"), table=m.normal((s.V, s.D), t), out=m.empty((s.n, s.D), t))


lookup = Entry("embedding", inputs=table_inputs, outputs=("out",), reference=lambda x, a, s: a.table[a.ids], shapes=TABLE, small=SMALL_TABLE, dtypes=TWO, bytes=lambda s, e: 2 * s.n * s.D * e,
               library=lambda torch, a, s: torch.nn.functional.embedding(a.ids, a.table))


@lookup.spelling("tiles", TILES)
def _(a, s, c):
    return Launch(embedding, (cdiv(s.n, c.BR), cdiv(s.D, c.BD)), (a.ids, a.table, a.out, s.n), D=s.D, **vars(c))


@lookup.spelling("a row a program", configs("BLOCK num_warps", (64, 2), (1024, 4), (2048, 4), (4096, 8)))
def _(a, s, c):
    return Launch(embedding_row, (s.n,), (a.ids, a.table, a.out, s.D), **vars(c))


def grad_inputs(m, s, t):
    return dict(ids=m.integers((s.n,), 0, s.V, "int32"), x=m.normal((s.n, s.D), t), out=m.zeros((s.V, s.D), "fp32"))


def adding_entry(name, shape_list):
    e = Entry(name, inputs=grad_inputs, outputs=("out",), zeroed=("out",), reference=lambda x, a, s: x.add_rows(a.out * 0, a.ids, a.x), shapes=shape_list, small=SMALL_TABLE, dtypes=TWO,
              bytes=lambda s, e: s.n * s.D * (e + 4))

    @e.spelling("atomics", TILES)
    def _(a, s, c):
        return Launch(add_rows, (cdiv(s.n, c.BR), cdiv(s.D, c.BD)), (a.ids, a.x, a.out, s.n, s.D), **vars(c))
    return e


embedding_grad = adding_entry("embedding backward", TABLE)
index_add = adding_entry("index_add", shapes("V n D", (4096, 65536, 2048), (256, 65536, 512)))
scatter = Entry("scatter of rows", inputs=lambda m, s, t: dict(ids=m.permutation(s.n), x=m.normal((s.n, s.D), t), out=m.empty((s.n, s.D), t)), outputs=("out",),
                reference=lambda x, a, s: x.add_rows(a.x * 0, a.ids, a.x), shapes=shapes("n D", (65536, 2048), (131072, 512)), small=shapes("n D", (21, 72)), dtypes=TWO,
                bytes=lambda s, e: 2 * s.n * s.D * e)


@scatter.spelling("tiles", TILES)
def _(a, s, c):
    return Launch(scatter_rows, (cdiv(s.n, c.BR), cdiv(s.D, c.BD)), (a.ids, a.x, a.out, s.n, s.D), **vars(c))


def picked_reference(x, a, s):
    rows = x.arange(s.rows)[:, None]
    return a.x[rows, x.long(a.index)]


gather = Entry("gather of elements", inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), index=m.integers((s.rows, s.picked), 0, s.cols), out=m.empty((s.rows, s.picked), t)), outputs=("out",),
               reference=picked_reference, shapes=shapes("rows cols picked", (65536, 256, 256), (65536, 1024, 512)), small=shapes("rows cols picked", (8, 64, 32)), dtypes=TWO,
               bytes=lambda s, e: s.rows * (s.cols * e + s.picked * (e + 4)))


@gather.spelling("addresses", configs("BLOCK num_warps", (32, 1), (256, 2), (256, 4), (512, 4)))
def _(a, s, c):
    return Launch(gather_elements, (s.rows, cdiv(s.picked, c.BLOCK)), (a.x, a.index, a.out, s.cols, s.picked), **vars(c))


@gather.spelling("tl.gather", configs("BR num_warps", (4, 4), (1, 1), (8, 4), (16, 4), (16, 8)), lambda s, c: s.rows % c.BR == 0)
def _(a, s, c):
    return Launch(gather_in_tile, (s.rows // c.BR,), (a.x, a.index, a.out), cols=s.cols, picked=s.picked, **vars(c))


counted = Entry("histogram", inputs=lambda m, s, t: dict(x=m.integers((s.n,), 0, s.BINS), out=m.zeros((s.BINS,), "int32")), outputs=("out",), zeroed=("out",),
                reference=lambda x, a, s: x.bincount(a.x, minlength=s.BINS), shapes=shapes("n BINS", (1 << 26, 256), (1 << 26, 1024)), small=shapes("n BINS", (1000, 64)), dtypes=("int32",),
                bytes=lambda s, e: 4 * s.n)


@counted.spelling("tl.histogram", configs("BLOCK PROGRAMS num_warps", (256, 3, 4), (2048, 528, 4), (4096, 264, 8), (8192, 132, 8)))
def _(a, s, c):
    return Launch(histogram_blocks, (c.PROGRAMS,), (a.x, a.out, s.n), BINS=s.BINS, BLOCK=c.BLOCK, num_warps=c.num_warps)


@counted.spelling("atomics", configs("BLOCK num_warps", (256, 4), (1024, 4), (2048, 8), (4096, 8)))
def _(a, s, c):
    return Launch(histogram_atomics, (cdiv(s.n, c.BLOCK),), (a.x, a.out, s.n), **vars(c))


transposed = Entry("transpose", inputs=lambda m, s, t: dict(x=m.normal((s.M, s.N), t), out=m.empty((s.N, s.M), t)), outputs=("out",), reference=lambda x, a, s: x.swapaxes(a.x, 0, 1),
                   shapes=shapes("M N", (8192, 8192), (65536, 1024), (1024, 65536)), small=shapes("M N", (72, 88)), dtypes=("bf16", "fp32", "int8"), bytes=lambda s, e: 2 * s.M * s.N * e,
                   library=lambda torch, a, s: a.x.T.contiguous())
transposed_16 = Entry("transpose by descriptors", inputs=transposed.inputs, outputs=("out",), reference=transposed.reference, shapes=transposed.shapes, small=transposed.small, dtypes=TWO,
                      bytes=transposed.bytes)
SQUARES = configs("BM BN num_warps", (32, 32, 4), (64, 64, 4), (64, 64, 8), (128, 32, 4), (32, 128, 4), (128, 64, 8), (128, 128, 8))
for entry, name, kernel in ((transposed, "tl.trans", transpose_tiles), (transposed, "strides", transpose_by_strides), (transposed, "block pointers", transpose_block_pointers),
                            (transposed_16, "descriptors in the kernel", transpose_descriptors)):
    @entry.spelling(name, SQUARES)
    def _(a, s, c, kernel=kernel):
        return Launch(kernel, (cdiv(s.M, c.BM), cdiv(s.N, c.BN)), (a.x, a.out, s.M, s.N), **vars(c))


def rows_inputs(m, s, t):
    """No two elements of a row are equal."""
    values = m.x.float(m.permutation(s.rows * s.cols, "int64")).reshape(s.rows, s.cols)
    return dict(x=m.cast(values * 0.25 if s.rows * s.cols < 256 else values / (s.rows * s.cols), t), out=m.empty((s.rows, s.K), "fp32"), index=m.empty((s.rows, s.K), "int32"))


largest = Entry("top-k", inputs=rows_inputs, outputs=("out",), reference=lambda x, a, s: x.flip(x.sorted(a.x)[:, -s.K:], (1,)), shapes=shapes("rows cols K", (16384, 4096, 64), (65536, 256, 8), (2048, 16384, 32)),
                small=shapes("rows cols K", (5, 200, 16)), dtypes=TWO, bytes=lambda s, e: s.rows * s.cols * e, library=lambda torch, a, s: torch.topk(a.x, s.K))


@largest.spelling("tl.topk", FEW_WARPS)
def _(a, s, c):
    return Launch(top_k, (s.rows,), (a.x, a.out, s.cols), K=s.K, BLOCK=next_power_of_2(s.cols), **vars(c))


router = Entry("top-k of a router", inputs=rows_inputs, outputs=("out", "index"), reference=lambda x, a, s: (x.flip(x.sorted(a.x)[:, -s.K:], (1,)), x.flip(x.argsort(a.x)[:, -s.K:], (1,))),
               shapes=shapes("rows cols K", (65536, 64, 8), (65536, 256, 8)), small=shapes("rows cols K", (4, 50, 4)), dtypes=("fp32",), bytes=lambda s, e: s.rows * s.cols * e)


@router.spelling("one after the other", configs("num_warps", 1, 2, 4, 8))
def _(a, s, c):
    return Launch(top_k_by_turns, (s.rows,), (a.x, a.out, a.index, s.cols), K=s.K, BLOCK=next_power_of_2(s.cols), **vars(c))


sorting = Entry("sort of rows", inputs=lambda m, s, t: dict(x=m.normal((s.rows, s.cols), t), out=m.empty((s.rows, s.cols), t)), outputs=("out",), reference=lambda x, a, s: x.sorted(a.x),
                shapes=shapes("rows cols", (65536, 256), (16384, 2048)), small=shapes("rows cols", (5, 100)), dtypes=("fp32", "bf16"), bytes=lambda s, e: 2 * s.rows * s.cols * e,
                library=lambda torch, a, s: torch.sort(a.x, dim=1))


@sorting.spelling("tl.sort", FEW_WARPS)
def _(a, s, c):
    return Launch(sort_rows, (s.rows,), (a.x, a.out, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))
