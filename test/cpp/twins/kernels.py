"""The kernels of kernels.hpp in the language's own syntax: tile IR is the same, so are the names of kernels and parameters."""
import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax_rows(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    values = tl.load(x + row * stride + columns, mask=mask, other=float("-inf"))
    e = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + columns, e / tl.sum(e, 0), mask=mask)


@triton.jit
def layer_norm(x, w, b, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mean += tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(mean, 0) / n
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        d = tl.where(i < n, tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32) - m, 0.0)
        square += d * d
    scale = tl.rsqrt(tl.sum(square, 0) / n + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n).to(tl.float32)
        tl.store(out + row * n + i, (v - m) * scale * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in tl.range(0, K, BK, num_stages=3):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def shared_sums(x, out, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.float32)
    for k in tl.range(0, n, split=PARTS if PARTS else None):
        acc += tl.load(x + k * BLOCK + i)
    more = tl.zeros([BLOCK], tl.float32)
    if PARTS == 0:
        for k in tl.range(0, n, split="auto"):
            more += tl.load(x + k * BLOCK + i) * 0.5
    tl.store(out + i, acc + more)


@triton.jit
def matmul_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, out, n, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + d[None, :])
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    for start in range(0, n, N):
        keys = start + tl.arange(0, N)
        s = tl.dot(query, tl.trans(tl.load(k + keys[:, None] * D + d[None, :]))) * scale
        s = tl.where(rows[:, None] >= keys[None, :], s, float("-inf"))
        now = tl.maximum(top, tl.max(s, 1))
        alpha = tl.exp2(top - now)
        p = tl.exp2(s - now[:, None])
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(tl.float16), tl.load(v + keys[:, None] * D + d[None, :]), acc)
        top = now
    tl.store(out + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def rotate(x, cosine, sine, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    even, odd = tl.split(tl.reshape(tl.load(x + i), [BLOCK // 2, 2]))
    h = tl.arange(0, BLOCK // 2)
    c = tl.load(cosine + h)
    s = tl.load(sine + h)
    tl.store(out + i, tl.reshape(tl.join(even * c - odd * s, even * s + odd * c), [BLOCK]))


@triton.jit
def arg_reduce(x, value, index, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    best, at = tl.reduce((v, i), 0, _better)
    tl.store(value, best)
    tl.store(index, at)


@triton.jit
def _better(a, i, b, j):
    left = (a > b) | ((a == b) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, _product))


@triton.jit
def count(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n, sem="relaxed")


@triton.jit
def collatz(x, out):
    p = tl.program_id(0)
    n = tl.load(x + p)
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = n * 3 + 1
        steps += 1
    tl.store(out + p, steps)


@triton.jit
def integers(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    b = tl.load(y + i)
    q = a // b + a % b
    tl.store(out + i, ((q & 255) | (a << 3)) ^ (~b >> 1))


@triton.jit
def mixed(x, y, out, n, s, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    b = tl.load(y + i)
    c = a * 2 + b
    d = -c / n + s * a
    tl.store(out + i, tl.where(a > 0.5, d, tl.minimum(c, 3.0)))


@triton.jit
def math(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    v = tl.sin(v) + tl.cos(v) * tl.log(tl.abs(v) + 1.0)
    v = tl.fma(tl.sqrt(tl.abs(v)), tl.erf(v), tl.floor(v) - tl.ceil(v))
    tl.store(out + i, tl.clamp(tl.sigmoid(v), 0.1, 0.9))


@triton.jit
def narrow(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    total = tl.sum(v, 0)
    high = tl.max(v, 0)
    tl.store(out, total + high + tl.argmax(v, 0))


@triton.jit
def tile_of_tiles(x, out, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    v = tl.load(x + tl.expand_dims(m, 1) * N + tl.expand_dims(n, 0))
    total = tl.sum(v, 1, keep_dims=True)
    wide = tl.broadcast_to(total, [M, N])
    tl.store(out + n[:, None] * M + m[None, :], tl.trans(v - wide))


@triton.jit
def unrolled(x, out, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(x + (part * BLOCK + i))
    if PARTS > 2:
        total = total / PARTS
    tl.store(out + i, total)


@triton.jit
def _gelu(x):
    return x * 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def helper(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = _gelu(tl.load(x + i, mask=i < n))
    tl.store(out + i, v, mask=i < n)


@triton.jit
def bits(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i).to(tl.int32, bitcast=True)
    tl.store(out + i, (v & 0x7fffffff).to(tl.float32, bitcast=True))


@triton.jit
def dropout(x, out, n, seed, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


@triton.jit
def copy_blocks(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [M, N])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [M, N])
    for p in range(tl.program_id(0), tl.cdiv(rows, M), tl.num_programs(0)):
        target.store([p * M, 0], source.load([p * M, 0]))
