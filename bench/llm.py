#!/usr/bin/env python3
"""Kernels of examples/llm/kernels beside PyTorch on the CPU, or beside NumPy (OpenBLAS) where PyTorch is not installed; writes build/bench/llm.json.

Each row is the median of alternating runs (ours, peer, ours, ...), the ratio the median of the pairs' ratios, as in run.py. Results are compared before they are timed.
`--device cuda` compares on a GPU (llm_gpu.py).
`--rows TEXT` takes the rows whose names have that text; `--seconds` is how long a row may take. Both sides use TEGULA_NUM_THREADS threads, or all cores;
with one thread times are processor time, which other processes change less than the clock's.
"""
import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/llm/kernels"))
import attention  # noqa: E402
import elementwise  # noqa: E402
import matmul  # noqa: E402
import moe  # noqa: E402
import norms  # noqa: E402
import quantized  # noqa: E402
import sampling  # noqa: E402
import tegula  # noqa: E402

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

THREADS = int(os.environ.get("TEGULA_NUM_THREADS", os.cpu_count() or 1))
BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
RNG = np.random.default_rng(0)
cdiv = tegula.cdiv


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape, dtype=np.float32).astype(dtype)


def tensor(a):
    """The array's memory as a torch tensor."""
    views = {np.dtype(BF16): (np.int16, "bfloat16"), np.dtype(FP8): (np.uint8, "float8_e4m3fn")}
    if a.dtype not in views:
        return torch.from_numpy(a)
    raw, name = views[a.dtype]
    return torch.from_numpy(a.view(raw)).view(getattr(torch, name))


def number(x):
    return x.float().numpy() if torch is not None and isinstance(x, torch.Tensor) else np.asarray(x).astype(np.float32)


class Row:
    """`run` fills `out`; `peer` gives the same numbers; `library(t)` the peer of torch, on tensors. Work is bytes or floating-point operations."""
    def __init__(self, name, run, out, library=None, plain=None, bytes=0, flops=0, tolerance=1e-2):
        self.name, self.run, self.out, self.bytes, self.flops, self.tolerance = name, run, out, bytes, flops, tolerance
        self.peer, self.peer_name = (library, "torch") if torch is not None and library else (plain, "numpy")


def norm_rows():
    for n in (2048, 4096):
        x, delta, w, b = normal(512, n), normal(512, n), normal(n), normal(n)
        out = np.empty_like(x)
        zero = np.zeros_like(delta)
        yield Row(f"rms_norm + residual 512 x {n}", lambda x=x, w=w, out=out, n=n, d=zero: norms.rms_norm[(512,)](x, d, w, out, n, 0, 1e-5, ADD=1, BLOCK=n), out,
                  lambda x=tensor(x), w=tensor(w), n=n, d=tensor(zero): F.rms_norm(x.add_(d), (n,), w, 1e-5), bytes=16 * x.size) if torch else None
        yield Row(f"layer_norm + residual 512 x {n}", lambda x=x, w=w, b=b, out=out, n=n, d=zero: norms.layer_norm[(512,)](x, d, w, b, out, n, 0, 1e-5, ADD=1, BLOCK=n if n <= 2048 else 512, WHOLE=n <= 2048), out,
                  lambda x=tensor(x), w=tensor(w), b=tensor(b), n=n, d=tensor(zero): F.layer_norm(x.add_(d), (n,), w, b, 1e-5), bytes=16 * x.size) if torch else None


def elementwise_rows():
    rows, n = 256, 8192
    x, out = normal(rows, 2 * n), np.empty((rows, n), np.float32)
    yield Row(f"swiglu {rows} x {n}", lambda: elementwise.swiglu[(rows, n // 1024)](x, out, n, BLOCK=1024), out, lambda t=tensor(x): F.silu(t[:, :n]) * t[:, n:], bytes=12 * out.size) if torch else None
    bias = normal(n)
    for kind in ("silu", "gelu", "gelu_tanh"):
        ours = np.empty((rows, n), np.float32)
        a = np.ascontiguousarray(x[:, :n])
        peer = {"silu": lambda t: F.silu(t), "gelu": lambda t: F.gelu(t), "gelu_tanh": lambda t: F.gelu(t, approximate="tanh")}[kind]
        yield Row(f"bias + {kind} {rows} x {n}", lambda a=a, o=ours, k=kind: elementwise.bias_activation[(rows, n // 1024)](a, bias, o, n, KIND=k, BLOCK=1024), ours,
                  lambda t=tensor(a), b=tensor(bias), f=peer: f(t + b), bytes=8 * a.size) if torch else None
    s, o = normal(512, 4096), np.empty((512, 4096), np.float32)
    yield Row("softmax 512 x 4096", lambda: elementwise.softmax[(512,)](s, o, 4096, BLOCK=4096), o, lambda t=tensor(s): torch.softmax(t, 1), bytes=8 * s.size) if torch else None
    v = 32000
    logits, targets, loss = normal(128, v), RNG.integers(0, v, 128).astype(np.int32), np.empty(128, np.float32)
    yield Row(f"cross_entropy 128 x {v}", lambda: elementwise.cross_entropy[(128,)](logits, targets, loss, v, -100, BLOCK=2048), loss,
              lambda t=tensor(logits), y=tensor(targets.astype(np.int64)): F.cross_entropy(t, y, reduction="none"), bytes=4 * logits.size) if torch else None
    table, tokens, e = normal(v, 2048, dtype=BF16), RNG.integers(0, v, 1024).astype(np.int32), np.empty((1024, 2048), np.float32)
    yield Row("embedding 1024 x 2048 bf16", lambda: elementwise.embedding[(1024, 2)](tokens, tokens, table, e, e, 2048, ROUNDED=False, BLOCK=1024), e,
              lambda t=tensor(table), i=tensor(tokens.astype(np.int64)): F.embedding(i, t).float(), bytes=6 * e.size) if torch else None


def sampling_rows():
    n, rows = 128256, 8
    x, out = normal(rows, n), np.empty(rows, np.int32)
    yield Row(f"argmax {rows} x {n}", lambda: sampling.argmax[(rows,)](x, out, n, BLOCK=1024), out, lambda t=tensor(x): t.argmax(1), lambda: x.argmax(1), bytes=4 * x.size) if torch else None
    args = [np.full(rows, 1e-3, np.float32), np.full(rows, 50, np.int32), np.full(rows, 0.9, np.float32), np.arange(rows, dtype=np.int32), np.zeros(rows, np.int32)]

    def library(t):
        """The usual way: the k largest, their softmax, the part that holds p, a draw. At this temperature it can only be the largest."""
        v, i = (t / 1e-3).topk(50, dim=1)
        p = torch.softmax(v, 1)
        p = torch.where(p.cumsum(1) - p < 0.9, p, 0)
        return i.gather(1, torch.multinomial(p, 1)).squeeze(1)

    drawn = np.empty(rows, np.int32)
    yield Row(f"sample top-k 50, top-p 0.9, {rows} x {n}", lambda: sampling.sample[(rows,)](x, drawn, *args, n, BLOCK=1024, SCAN=1024), drawn, lambda t=tensor(x): library(t), bytes=4 * x.size) if torch else None


def product_rows():
    shapes = [(1, 2048, 8192), (1, 8192, 2048), (4, 2048, 8192), (128, 2048, 2048)]
    for dtype, name in ((np.float32, "fp32"), (BF16, "bf16")):
        for m, k, n in shapes:
            x, w, out = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype), np.empty((m, n), np.float32)
            if m == 1:
                run = lambda x=x, w=w, out=out, m=m, n=n, k=k: matmul.gemv[(m, n // 8)](x, w, out, m, n, k, n, BN=8, BK=tegula.next_power_of_2(k), WHOLE=True)
            elif m <= 4:
                run = lambda x=x, w=w, out=out, m=m, n=n, k=k: matmul.matmul[(1, n // 32)](x, w, out, m, n, k, n, BM=tegula.next_power_of_2(m), BN=32, BK=256)
            else:
                run = lambda x=x, w=w, out=out, m=m, n=n, k=k: matmul.matmul[(1, n // 64)](x, w, out, m, n, k, n, BM=128, BN=64, BK=128)
            work = dict(bytes=w.nbytes) if m <= 4 else dict(flops=2 * m * n * k)
            yield Row(f"matmul {name} {m} x {k} x {n}", run, out, lambda x=x, w=w: F.linear(tensor(x), tensor(w)), (lambda x=x, w=w: x @ w.T) if dtype == np.float32 else None, tolerance=0.05, **work)
    x, w, s = normal(128, 2048, dtype=FP8), normal(2048, 2048, dtype=FP8), np.ones(2048, np.float32)
    out = np.empty((128, 2048), np.float32)
    yield Row("matmul fp8 128 x 2048 x 2048 with scales", lambda: matmul.fp8_matmul[(1, 32)](x, w, s, s, out, 128, 2048, 2048, BM=128, BN=64, BK=128), out,
              lambda a=tensor(x), b=tensor(w): F.linear(a.bfloat16(), b.bfloat16()), flops=2 * 128 * 2048 * 2048, tolerance=0.05) if torch else None


def quantized_rows():
    g = 64
    for bits in (4, 8):
        for m, k, n in ((1, 2048, 8192), (1, 8192, 2048), (1, 2048, 128256), (4, 2048, 8192), (32, 2048, 8192)):
            x, w = normal(m, k), normal(n, k, dtype=BF16) * np.float32(k**-0.5).astype(BF16)
            q, scales = np.empty(n * k * bits // 8, np.uint8), np.empty(n * k // g, BF16)
            quantized.quantize_weights[(n // 64, k // g)](w, q, scales, n, k, G=g, BITS=bits)
            parts, sx, sums, out = np.empty((m, 2, k), np.int8), np.empty((m, k // g), np.float32), np.empty((m, k // g), np.int32), np.empty((m, n), np.float32)
            bm = min(32, tegula.next_power_of_2(m))

            def run(x=x, q=q, scales=scales, parts=parts, sx=sx, sums=sums, out=out, m=m, n=n, k=k, bits=bits, bm=bm):
                quantized.split_activations[(m, k // g)](x, parts, sx, sums, k, G=g)
                quantized.integer_matmul[(cdiv(m, bm), n // 64)](parts, sx, sums, q, scales, out, m, n, k, n, G=g, BITS=bits, BM=bm)

            library = None
            if torch is not None:
                library = int_library(bits, x, w, g)
            yield Row(f"matmul w{bits}a16 {m} x {k} x {n}", run, out, library, bytes=q.nbytes + scales.nbytes, tolerance=0.2)
    w = normal(8192, 2048, dtype=BF16)
    q, scales = np.empty(w.size // 2, np.uint8), np.empty(w.size // g, BF16)
    back = np.empty(w.shape, BF16)
    quantized.quantize_weights[(128, 32)](w, q, scales, 8192, 2048, G=g, BITS=4)
    yield Row("quantize int4 8192 x 2048", lambda: quantized.quantize_weights[(128, 32)](w, q, scales, 8192, 2048, G=g, BITS=4), scales,
              lambda t=tensor(w): quantize_by_torch(t, g), bytes=w.nbytes + q.nbytes, tolerance=1) if torch else None
    yield Row("dequantize int4 8192 x 2048", lambda: quantized.dequantize_weights[(128, 32)](q, scales, back, 8192, 2048, G=g, BITS=4), back,
              lambda t=torch.randint(0, 255, (8192, 1024), dtype=torch.uint8), s=torch.ones(8192, 32, 1): dequantize_by_torch(t, s), bytes=w.nbytes + q.nbytes, tolerance=np.inf) if torch else None


def quantize_by_torch(w, g):
    v = w.float().reshape(w.shape[0], -1, g)
    s = (v.abs().amax(2, keepdim=True) / 7).bfloat16().float()
    i = (v / s + 0.5).floor().clamp(-8, 7).to(torch.int8) + 8
    packed = i[..., :g // 2] | i[..., g // 2:] << 4
    return s.reshape(w.shape[0] // 64, 64, -1).transpose(1, 2).reshape(-1) + 0 * packed[0, 0, 0]


def dequantize_by_torch(q, s):
    q = q.reshape(q.shape[0], s.shape[1], -1)
    return (torch.cat((q & 15, q >> 4), 2).float() - 8).mul_(s).bfloat16()


def int_library(bits, x, w, g):
    """torch's own products of quantized weights: int4 in groups, int8 by a scale a row (bf16 activations)."""
    t, a = tensor(w).float(), tensor(x).bfloat16()
    if bits == 8:
        s = t.abs().amax(1) / 127
        q, s = (t / s[:, None]).round().to(torch.int8), s.bfloat16()
        return lambda: torch.ops.aten._weight_int8pack_mm(a, q, s)
    v = t.reshape(t.shape[0], -1, g)
    s = v.abs().amax(2, keepdim=True) / 7
    q = ((v / s).round().clamp(-8, 7) + 8).to(torch.int32).reshape(t.shape)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q, 1)
    s = torch.stack((s.squeeze(2).T, torch.zeros_like(s.squeeze(2).T)), 2).bfloat16().contiguous()
    return lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(a, packed, g, s)


def attention_rows():
    hq, hk, d, page = 32, 8, 64, 64
    for name, sequences, before, new in (("decode, 1 sequence of 2048", 1, 2047, 1), ("decode, 8 sequences of 1024", 8, 1023, 1), ("prefill of 512", 1, 0, 512)):
        keys = before + new
        pages = cdiv(keys, page)
        k, v = (normal(sequences * pages, hk, page, d, dtype=BF16) for _ in "kv")
        table = np.arange(sequences * pages, dtype=np.int32).reshape(sequences, pages)
        q, out = normal(sequences * new, hq, d, dtype=BF16), np.empty((sequences * new, hq, d), np.float32)
        queries = 1 if new == 1 else 32
        tiles = np.array([(s * new + i, min(queries, new - i), before + i, s) for s in range(sequences) for i in range(0, new, queries)], np.int32)
        run = lambda q=q, k=k, v=v, out=out, tiles=tiles, table=table, queries=queries, pages=pages: attention.paged_attention[(hk, len(tiles), 1)](
            q, k, v, out, out, tiles, table, pages, k.size // d, d**-0.5, HQ=hq, HK=hk, D=d, PAGE=page, QUERIES=queries, BM=queries * hq // hk, BN=64, SPLITS=1, DESCRIPTORS=False)
        library = None
        if torch is not None:
            flat = lambda a: tensor(a).reshape(sequences, pages, hk, page, d).transpose(1, 2).reshape(sequences, hk, pages * page, d)[:, :, :keys].contiguous()
            tq, tk, tv = tensor(q).reshape(sequences, new, hq, d).transpose(1, 2).contiguous(), flat(k), flat(v)
            library = lambda tq=tq, tk=tk, tv=tv, new=new: F.scaled_dot_product_attention(tq, tk, tv, is_causal=new > 1, enable_gqa=True).transpose(1, 2).reshape(-1, hq, d)
        pairs = sequences * (new * before + new * (new + 1) // 2)
        yield Row(f"attention {name}, 32/8 heads of 64, bf16", run, out, library, flops=4 * pairs * hq * d, tolerance=0.05)


def expert_rows():
    tokens, e, each, k, n, tile = 64, 8, 2, 1024, 2048, 16
    logits, x, w = normal(tokens, e), normal(tokens, k), normal(e, n, k, dtype=BF16)
    experts, weights = np.empty((tokens, each), np.int32), np.empty((tokens, each), np.float32)
    slots = cdiv(tokens * each + e * (tile - 1), tile) * tile
    order, tiles, out = np.empty(slots, np.int32), np.empty(slots // tile, np.int32), np.empty((tokens * each, n), np.float32)

    def run():
        moe.moe_gate[(tokens,)](logits, experts, weights, e, K=each, BLOCK=8)
        moe.moe_align[(1,)](experts, order, tiles, tokens * each, e, slots, TILE=tile, BLOCK=256)
        moe.grouped_matmul[(slots // tile, n // 64)](x, w, out, order, tiles, n, k, n, EACH=each, BM=tile, BN=64, BK=64)

    def library(l, x, w):
        chosen = l.topk(each, 1).indices
        result = torch.empty(tokens * each, n)
        for i in range(e):
            at = (chosen.reshape(-1) == i).nonzero().squeeze(1)
            result[at] = F.linear(x[at // each], w[i]).float()
        return result

    yield Row(f"experts: gate, sort, grouped product {tokens} x {k} x {n}, 2 of {e}", run, out, lambda l=tensor(logits), x=tensor(x).bfloat16(), w=tensor(w): library(l, x, w),
              flops=2 * tokens * each * n * k, tolerance=0.1) if torch else None
    g = 64
    for bits in (4, 8):
        for m in (1, 4, 64):
            x, experts = normal(m, k), np.stack([RNG.permutation(e)[:each] for _ in range(m)]).astype(np.int32)
            w = normal(e * n, k) * np.float32(k**-0.5)
            q, scales = np.empty(w.size * bits // 8, np.uint8), np.empty(w.size // g, BF16)
            quantized.quantize_weights[(e * n // 64, k // g)](w, q, scales, e * n, k, G=g, BITS=bits)
            tile = 1 if m == 1 else 2 if m * each <= 2 * e else 4  # expertTile of Model.cpp
            slots = cdiv(m * each + e * (tile - 1), tile) * tile
            order, tiles, out = np.empty(slots, np.int32), np.empty(slots // tile, np.int32), np.empty((m * each, n), np.float32)
            parts, sx, sums = np.empty((m, 2, k), np.int8), np.empty((m, k // g), np.float32), np.empty((m, k // g), np.int32)

            def run(m=m, x=x, q=q, scales=scales, out=out, experts=experts, order=order, tiles=tiles, parts=parts, sx=sx, sums=sums, tile=tile, slots=slots, bits=bits):
                moe.moe_align[(1,)](experts, order, tiles, m * each, e, slots, TILE=tile, BLOCK=256)
                quantized.split_activations[(m, k // g)](x, parts, sx, sums, k, G=g)
                quantized.grouped_integer_matmul[(slots // tile, n // 64)](parts, sx, sums, q, scales, out, order, tiles, n, k, n, EACH=each, G=g, BITS=bits, BM=tile)

            def library(chosen=experts.ravel(), m=m, bits=bits, w=w, x=x):
                products = [int_library(bits, x[np.flatnonzero(chosen == i) // each], w[i * n:(i + 1) * n], g) for i in range(e)]
                at = [torch.from_numpy(np.flatnonzero(chosen == i)) for i in range(e)]

                def go():
                    result = torch.empty(m * each, n)
                    for i in range(e):
                        if len(at[i]):
                            result[at[i]] = products[i]().float()
                    return result
                return go
            read = len(np.unique(experts)) * n * k * bits // 8
            yield Row(f"experts w{bits}a16: sort, grouped product {m} x {k} x {n}, 2 of {e}", run, out, library() if torch else None, bytes=read, tolerance=0.2) if torch else None


FAMILIES = (norm_rows, elementwise_rows, sampling_rows, product_rows, quantized_rows, attention_rows, expert_rows)


def pairs(row, seconds):
    """Times of both sides in turn; after a pause, so that the other side's threads have gone to sleep, the first run of each turn is not timed. Of one thread it is processor time."""
    clock = time.process_time if THREADS == 1 else time.perf_counter
    ours, peers, end = [], [], time.perf_counter() + seconds
    while len(ours) < 5 or (time.perf_counter() < end and len(ours) < 60):
        for f, to in ((row.run, ours), (row.peer, peers)):
            time.sleep(0.03)
            f()
            t = clock()
            f()
            f()
            to.append((clock() - t) / 2)
    return ours, peers


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rows", default="", help="only rows with this text in their name")
    p.add_argument("--seconds", type=float, default=3, help="for each row")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: llm_gpu.py, in the shapes of an 8B decoder")
    p.add_argument("--rounds", type=int, default=9, help="of a row on a GPU")
    a = p.parse_args()
    if a.device == "cuda":
        import llm_gpu
        return llm_gpu.main(a.rows, a.rounds)
    if torch is None:
        print("torch is not installed: rows whose only peer it is are left out")
    else:
        torch.set_num_threads(THREADS)
    results, failed = [], 0
    for family in FAMILIES:
        for row in family():
            if row is None or a.rows not in row.name:
                continue
            if row.peer is None:
                print(f"{row.name}: no peer here")
                continue
            row.run()
            want = number(row.peer())
            error = np.abs(row.out.astype(np.float32).reshape(-1) - want.reshape(-1)).max() / max(1e-30, np.abs(want).max())
            if not error <= row.tolerance:
                print(f"{row.name}: WRONG, off by {error:.2e} of the largest element")
                failed += 1
                continue
            ours, peers = pairs(row, a.seconds)
            rate = lambda t: f"{row.bytes / t / 1e9:8.1f} GB/s" if row.bytes else f"{row.flops / t / 1e9:8.1f} GFLOP/s"
            ratio = statistics.median(q / o for o, q in zip(ours, peers))
            o, q = statistics.median(ours), statistics.median(peers)
            print(f"{row.name:<64} {rate(o)}  {row.peer_name} {rate(q)}  ratio {ratio:.2f}", flush=True)
            results.append({"row": row.name, "seconds": o, "peer": row.peer_name, "peer_seconds": q, "ratio": ratio, "error": float(error)})
    folder = ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "llm.json").write_text(json.dumps({"threads": THREADS, "rows": results}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
