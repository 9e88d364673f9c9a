#!/usr/bin/env python3
"""What tuning costs: seconds of the first call of ten autotuned kernels, each with its list of configurations, and the time of the kernel that was chosen.

    python3 bench/tune_time.py [--device cuda|cpu] [--json FILE]           with Triton
    python3 -m tegula bench/tune_time.py [--device cuda|cpu] [--json FILE]    with tegula: the same file, the same lists

Set TRITON_CACHE_DIR, TEGULA_CACHE_DIR to new folders and TEGULA_TUNE_DIR to nothing, so that both start with empty caches. Needs torch. With two files, `tune_time.py --compare TRITON.json TEGULA.json` prints the table of both and the ratios.
"""
import argparse
import itertools
import json
import sys
import time

import torch
import triton
import triton.language as tl


def configs(options=((4, 2), (8, 3)), **lists):
    return [triton.Config(dict(zip(lists, values)), num_warps=w, num_stages=s) for values in itertools.product(*lists.values()) for w, s in options]


ELEMENTWISE = configs(((2, 2), (4, 2), (8, 2)), BLOCK=(256, 512, 1024, 2048))
ROWS = configs(((1, 2), (2, 2), (4, 2), (8, 2), (16, 2)), BLOCK=(4096,))
MATMUL = configs(((4, 3), (8, 3), (4, 4), (8, 4)), BM=(64, 128), BN=(64, 128, 256), BK=(32, 64))


@triton.autotune(ELEMENTWISE, key=["n"])
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.autotune(ELEMENTWISE, key=["n"])
@triton.jit
def gelu(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(out + i, v * 0.5 * (1 + tl.erf(v * 0.70710678)) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.autotune(ROWS, key=["n"])
@triton.jit
def softmax(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    v = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=inside)


@triton.autotune(ROWS, key=["n"])
@triton.jit
def layer_norm(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(inside, v - mean, 0.0)
    tl.store(out + at, d * tl.rsqrt(tl.sum(d * d, 0) / n + 1e-5), mask=inside)


@triton.autotune(configs(((2, 2), (4, 2), (8, 2)), ROWS=(16, 32, 64), COLS=(32, 64)), key=["n"])
@triton.jit
def column_sums(x, y, out, m, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    acc = tl.zeros([ROWS, COLS], tl.float32)
    for r in range(0, m, ROWS):
        rows = r + tl.arange(0, ROWS)
        acc += tl.load(x + rows[:, None] * n + cols[None, :], mask=(rows < m)[:, None] & (cols < n)[None, :], other=0.0)
    tl.store(out + cols, tl.sum(acc, 0), mask=cols < n)


@triton.autotune(configs(((2, 2), (4, 2), (8, 2)), ROWS=(16, 32, 64), COLS=(32, 64)), key=["n"])
@triton.jit
def transpose(x, y, out, m, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = (rows < m)[:, None] & (cols < n)[None, :]
    v = tl.load(x + rows[:, None] * n + cols[None, :], mask=inside)
    tl.store(out + cols[:, None] * m + rows[None, :], tl.trans(v), mask=tl.trans(inside))


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    rows = (pid // tl.cdiv(n, BN)) * BM + tl.arange(0, BM)
    cols = (pid % tl.cdiv(n, BN)) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + rows[:, None] * k + inner[None, :]
    pb = b + inner[:, None] * n + cols[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, tl.cdiv(k, BK)):
        acc = tl.dot(tl.load(pa), tl.load(pb).to(a.dtype.element_ty), acc)
        pa += BK
        pb += BK * n
    tl.store(c + rows[:, None] * n + cols[None, :], acc.to(c.dtype.element_ty))


matmul = triton.autotune(MATMUL, key=["m", "n", "k"])(product)
tall_matmul = triton.autotune(MATMUL, key=["m", "n", "k"])(product)
dequant_matmul = triton.autotune(MATMUL[:24], key=["m", "n", "k"])(product)


@triton.autotune(configs(((4, 2), (8, 2), (4, 3), (8, 3)), BM=(64, 128), BN=(32, 64)), key=["length"])
@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    base = tl.program_id(1) * length * D
    at = base + rows[:, None] * D + d[None, :]
    tile = tl.load(q + at)
    best = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, length, BN):
        cols = start + tl.arange(0, BN)
        s = tl.dot(tile, tl.load(k + base + cols[None, :] * D + d[:, None])) * scale
        high = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - high[:, None])
        alpha = tl.exp2(best - high)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tile.dtype), tl.load(v + base + cols[:, None] * D + d[None, :]), acc * alpha[:, None])
        best = high
    tl.store(out + at, (acc / total[:, None]).to(tile.dtype))


def cases(device):
    """(name, call) of each kernel; a GPU gets larger tensors."""
    half = torch.float16 if device == "cuda" else torch.float32
    gpu = device == "cuda"
    n = 1 << (24 if gpu else 20)
    x, y = torch.randn(2, n, device=device)
    flat = lambda kernel: lambda: kernel[lambda m: (triton.cdiv(n, m["BLOCK"]),)](x, y, torch.empty_like(x), n)
    yield "add", flat(add), add
    yield "gelu", flat(gelu), gelu
    rows, columns = (8192, 4000) if gpu else (256, 4000)
    t = torch.randn(rows, columns, device=device)
    line = lambda kernel: lambda: kernel[(rows,)](t, t, torch.empty_like(t), columns)
    yield "softmax", line(softmax), softmax
    yield "layer_norm", line(layer_norm), layer_norm
    yield "column_sums", lambda: column_sums[lambda m: (triton.cdiv(columns, m["COLS"]),)](t, t, torch.empty(columns, device=device), rows, columns), column_sums
    grid = lambda m: (triton.cdiv(rows, m["ROWS"]), triton.cdiv(columns, m["COLS"]))
    yield "transpose", lambda: transpose[grid](t, t, torch.empty(columns, rows, device=device), rows, columns), transpose
    size = 4096 if gpu else 512  # the largest tile divides it and its half
    a, b = torch.randn(2, size, size, device=device).to(half)
    whole = torch.randint(-8, 8, (size, size), device=device, dtype=torch.int8)

    def times(kernel, a, b):
        m, k = a.shape
        c = torch.empty(m, b.shape[1], device=device, dtype=a.dtype)
        return lambda: kernel[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(b.shape[1], meta["BN"]),)](a, b, c, m, b.shape[1], k)
    yield "matmul", times(matmul, a, b), matmul
    yield "tall_matmul", times(tall_matmul, a, b[:, :size // 2].contiguous()), tall_matmul
    yield "dequant_matmul", times(dequant_matmul, a, whole), dequant_matmul
    heads, length, d = (64, 2048, 64) if gpu else (2, 256, 64)
    q, k, v = torch.randn(3, heads, length, d, device=device).to(half)
    yield "attention", lambda: attention[lambda m: (triton.cdiv(length, m["BM"]), heads)](q, k, v, torch.empty_like(q), length, 0.18, d), attention


def compare(files):
    theirs, ours = (json.load(open(f)) for f in files)
    print(f"{'kernel':<16}{'configs':>8}{'theirs s':>10}{'ours s':>9}{'ratio':>7}{'theirs us':>11}{'ours us':>10}{'ratio':>7}")
    sums = [0.0, 0.0]
    for name, (count, seconds, us) in theirs.items():
        _, our_seconds, our_us = ours[name]
        sums = [sums[0] + seconds, sums[1] + our_seconds]
        print(f"{name:<16}{count:>8}{seconds:>10.2f}{our_seconds:>9.2f}{our_seconds / seconds:>7.2f}{us:>11.1f}{our_us:>10.1f}{our_us / us:>7.2f}")
    print(f"{'all':<24}{sums[0]:>10.2f}{sums[1]:>9.2f}{sums[1] / sums[0]:>7.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--json")
    p.add_argument("--compare", nargs=2)
    a = p.parse_args()
    if a.compare:
        return compare(a.compare)
    from triton.testing import do_bench
    found = {}
    for name, call, kernel in cases(a.device):
        start = time.perf_counter()
        call()
        if a.device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        found[name] = (len(kernel.configs), seconds, do_bench(call, warmup=5, rep=30, return_mode="median") * 1e3)
        print(f"{name:<16} {len(kernel.configs):>3} configurations in {seconds:6.2f} s, {found[name][2]:9.1f} us with {kernel.best_config}", flush=True)
    print(f"all {sum(s for _, s, _ in found.values()):.2f} s")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(found, f)


if __name__ == "__main__":
    sys.exit(main())
