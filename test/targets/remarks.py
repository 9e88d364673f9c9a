# RUN: compile %s::accesses --sig 'x:*f32:16, indices:*i32:16, out:*f32:16, n:i32' -t sim --remarks
# RUN: compile %s::loop --sig 'a:*f16:16, out:*f32:16, n:i32' -c KIND=0 -c N=64 -t sim --remarks
# RUN: compile %s::loop --sig 'a:*f16:16, out:*f32:16, n:i32' -c KIND=1 -c N=64 -t sim --remarks
# RUN: compile %s::loop --sig 'a:*f16:16, out:*f32:16, n:i32' -c KIND=2 -c N=128 -t sim --num-warps 8 --num-stages 6 --remarks
# RUN: compile %s::descriptors --sig 'a:*bf16:16, n:*i32:16, out:*fp32:16, K:i32:16' -t sim --remarks
# RUN: compile %s::waits --sig 'flag:*i32:16, out:*f32:16' -t sim --num-ctas 2 --remarks
# RUN: compile %s::norm --sig 'x:*f32:16, out:*f32:16' -t sm_90a --remarks
# RUN: compile %s::strides --sig 'x:*f32:16, indices:*i32:16, out:*f32:16, s:i32, n:i32' -t cpu:avx2 --remarks
# RUN: compile %s::rows --sig 'x:*f32:16, out:*f32:16, n:i32' -t cpu:avx2 --remarks
# RUN: compile %s::middle --sig 'x:*f32:16, out:*f32:16, n:i32, K:i32' -t cpu:avx2 --remarks
# RUN: compile %s::elements --sig 'x:*f32:16, indices:*i32:16, wide:*i64:16, out:*f32:16, counts:*i32:16' -t cpu:avx2 --remarks
# RUN: compile %s::elements --sig 'x:*f32:16, indices:*i32:16, wide:*i64:16, out:*f32:16, counts:*i32:16' -t cpu:x86-64 --remarks
import triton
import triton.language as tl


@triton.jit
def accesses(x, indices, out, n):
    i = tl.arange(0, 1024)
    a = tl.load(x + tl.load(indices + i)) + tl.load(x + i + 1)
    tl.store(out + i, a, mask=i < n)


@triton.jit
def loop(a, out, n, KIND: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    p = a + i * N + j
    acc = tl.zeros((N, N), tl.float32)
    if KIND == 0:
        while n > 0:
            acc, n = tl.dot(tl.load(p + n * N), tl.load(p), acc), n - 1
    elif KIND == 1:
        for k in tl.range(0, n, num_stages=2):
            acc = tl.dot(tl.load(p + k * N), tl.load(p + k * N), acc) + tl.load(p + k)
    else:
        for k in range(n):
            acc = tl.dot(tl.load(p + k * N), tl.load(p + n + k * N), acc)
    tl.store(out + i * N + j, acc)


@triton.jit
def descriptors(a, n, out, K):
    d = tl.make_tensor_descriptor(a, [64, K], [K, 1], [64, 64])
    acc = tl.zeros([64, 64], tl.float32)
    for k in tl.range(0, K, 64, warp_specialize=True):
        t = d.load([0, k])
        acc = tl.dot(t, t.T, acc)
    tl.atomic_add(n, 1)
    tl.store(out + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


@triton.jit
def waits(flag, out):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.store(out + tl.arange(0, 128), 1.0)


@triton.jit
def norm(x, out):
    x += tl.program_id(0) * 16384
    acc = tl.zeros([2048], tl.float32)
    for i in range(0, 16384, 2048):
        acc += tl.load(x + i + tl.arange(0, 2048))
    mean = tl.sum(acc) / 16384
    for i in range(0, 16384, 2048):
        tl.store(out + i + tl.arange(0, 2048), tl.load(x + i + tl.arange(0, 2048)) - mean)


@triton.jit
def long_norm(x, out):
    x += tl.program_id(0) * 262144
    acc = tl.zeros([4096], tl.float32)
    for i in range(0, 262144, 4096):
        acc += tl.load(x + i + tl.arange(0, 4096))
    mean = tl.sum(acc) / 262144
    for i in range(0, 262144, 4096):
        tl.store(out + i + tl.program_id(0) * 262144 + tl.arange(0, 4096), tl.load(x + i + tl.arange(0, 4096)) - mean)


@triton.jit
def strides(x, indices, out, s, n):
    i = tl.arange(0, 128)
    a = tl.load(x + i * s)
    b = tl.load(x + i * 3, mask=i < n)
    c = tl.load(x + tl.load(indices + i))
    tl.store(out + i, a + b + c, mask=i < n)
    tl.store(out + i * s, tl.load(x + i % n))


@triton.jit
def rows(x, out, n):
    c = tl.program_id(0) * 64 + tl.arange(0, 64)[None, :]
    at = (tl.program_id(1) * 32 + tl.arange(0, 32)[:, None]) * n + c
    tl.store(out + at, tl.load(x + at, mask=c < n), mask=c < n)


@triton.jit
def halvings(a, b):
    while b > 1:
        a, b = a + 1, b // 2
    return a


@triton.jit
def elements(x, indices, wide, out, counts):
    i = tl.arange(0, 128)
    a, b, w = tl.load(x + i), tl.load(indices + i), tl.load(wide + i)
    tl.store(out + i, tl.gather(a, b, 0) + tl.cumsum(a))
    tl.store(counts + i, tl.histogram(b, 128))
    tl.atomic_add(counts + b, 1)
    tl.store(wide + i, w // (w - 1) + tl.reduce(b, 0, halvings))
    rows = i[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(out + rows, tl.associative_scan(tl.load(indices + rows), 1, halvings))
    tl.store(x + i, a % (a + 1.0))
    tl.store(out + i + 512, tl.inline_asm_elementwise("incl $0", "=r,0", [b], dtype=tl.int32, is_pure=True, pack=1))


# RUN: compile %s::norm --sig 'x:*f32, out:*f32:16' -t sm_90a --remarks
# RUN: compile %s::long_norm --sig 'x:*f32:16, out:*f32:16' -t sm_90a --num-warps=8 --remarks
# RUN: compile %s::long_norm --sig 'x:*f32:16, out:*f32:16' -t sm_90a --num-warps=8 --no-clusters --remarks


@tegula.jit
def middle(x, out, n, K):
    at = tl.program_id(1) * n * K + tl.arange(0, 64) * K + tl.program_id(0)
    tl.store(out + tl.program_id(1) * K + tl.program_id(0), tl.sum(tl.load(x + at), 0))
