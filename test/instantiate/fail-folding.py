# Arithmetic on compile-time values.
# instantiate: arithmetic(x: *fp32, N=5)
# instantiate: sequences(x: *fp32, N=5)
# instantiate: python(x: *fp32, n: i32, N=5)
# instantiate: of_tensors(x: *fp32, n: i32)
# instantiate: of_numbers(x: *fp32, n: i32)
import math
import triton
import triton.language as tl


@triton.jit
def arithmetic(x, N: tl.constexpr):
    a: tl.constexpr = N + "a"
    b: tl.constexpr = N < (1, 2)
    c: tl.constexpr = N // 0
    d: tl.constexpr = N % 0.0
    e: tl.constexpr = 0 ** -N
    f: tl.constexpr = 2 ** 126 * N
    g: tl.constexpr = N << 127
    h: tl.constexpr = N >> -1
    i: tl.constexpr = (-2.0) ** 0.5
    j: tl.constexpr = -"a"
    k: tl.constexpr = ~0.5
    l: tl.constexpr = +(1, 2)
    m: tl.constexpr = x.dtype > N
    n: tl.constexpr = tl.float32 <= tl.int8


@triton.jit
def sequences(x, N: tl.constexpr):
    a: tl.constexpr = (1, 2) * 1048576
    b: tl.constexpr = "ab" * 2 ** 100
    most: tl.constexpr = "a" * 1048576
    c: tl.constexpr = most + "b"


@triton.jit
def python(x, n, N: tl.constexpr):
    a: tl.constexpr = math.sqrt(-1)
    b: tl.constexpr = math.log(0)
    c: tl.constexpr = math.floor(float("inf"))
    d: tl.constexpr = math.sqrt("a")
    e: tl.constexpr = math.exp(n)
    f: tl.constexpr = max(N, float("nan"))
    g: tl.constexpr = min(-0.0, 1)
    h: tl.constexpr = max()
    i: tl.constexpr = len(N)
    j: tl.constexpr = len(n)
    k: tl.constexpr = getattr(n, "field")
    l: tl.constexpr = int("five")
    m: tl.constexpr = float("five")
    o: tl.constexpr = list(N)
    p: tl.constexpr = math.gcd(0.5, 1)
    q: tl.constexpr = math.pow(-8, 0.5)
    r: tl.constexpr = math.isnan("a")
    s: tl.constexpr = max(n, "a")


@triton.jit
def of_tensors(x, n):
    v = tl.load(x)
    a = math.exp(v)
    b = math.tanh(v)
    c = math.pow(2.0, v)
    d = math.radians(v)
    e = tl.arange(0, 8 / 2)
    f = f"{v}"
    for i in tl.arange(0, 4):
        tl.store(x + i, 1)


@triton.jit
def of_numbers(x, n):
    i = tl.arange(0, 4)
    a = tl.max(i, i + 1)
    b = float(n)
    c = int(tl.load(x))
    d = tl.float32(n)
    e = sum(i)
    f = tl.load(x + i, 0.0, i < n)
