#!/usr/bin/env python3
"""GPU benchmark: the same kernel source through tegula and Triton, and the libraries behind torch, in one process, interleaved.

`gpu.py [--rows TEXT] [--json FILE] [--quick]`. Each round runs every peer once with the L2 cache flushed before it, and each round begins with another
peer; what counts is the median over the rounds. Outputs are compared with torch's first; a wrong one is an error of the row, and a peer that fails says
why in its place.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from sources import load_as

HERE = Path(__file__).resolve().parent
DEV = "cuda"
BF16 = torch.bfloat16


def load_kernels(name, modules):
    return load_as(name, HERE / "gpu_kernels.py", modules)


def compilers(wanted=("tegula", "triton")):
    """{name: module of kernels}; Triton only where it is installed."""
    out = {}
    if "tegula" in wanted:
        import tegula
        import tegula.language
        out["tegula"] = load_kernels("gpu_kernels_tegula", {"triton": tegula, "triton.language": tegula.language})
    if "triton" not in wanted:
        return out
    try:
        import triton
        import triton.language
        out["triton"] = load_kernels("gpu_kernels_triton", {"triton": triton, "triton.language": triton.language})
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=DEV))
    except ImportError as e:
        print(f"no Triton: {e}")
    return out


def cdiv(a, b):
    return (a + b - 1) // b


# ---------------------------------------------------------------------------------------------------------------------- the rows
# A row: name, unit, work (in units per second when divided by seconds), {peer: function}, expected result or None, tolerance.

class Row:
    def __init__(self, name, unit, work, tolerance=2e-2):
        self.name, self.unit, self.work, self.tolerance = name, unit, work, tolerance
        self.peers, self.check = {}, None

    def kernel(self, ks, make):
        """make(kernels) -> function that launches. One peer for each compiler."""
        for who, k in ks.items():
            self.peers[who] = make(k)
        return self


def rows_memory(ks, quick):
    n = 1 << 26  # 256 MiB of fp32 in each of three arrays
    x, y = torch.randn(n, device=DEV), torch.randn(n, device=DEV)
    out = torch.empty_like(x)
    r = Row("add fp32 256 MiB", "GB/s", 3 * n * 4 / 1e9).kernel(ks, lambda k: lambda: k.add[(cdiv(n, 1024),)](x, y, out, n, BLOCK=1024))
    r.peers["torch"] = lambda: torch.add(x, y, out=out)
    r.check = (lambda: out, lambda: x + y)
    yield r
    yield copy_row(n)
    del x, y, out
    for cols in (1024, 4096) if quick else (1024, 4096, 8192, 16384, 32768):
        yield softmax_row(ks, 32768, cols)
    for cols in (1024, 4096) if quick else (1024, 4096, 8192, 16384):
        yield layer_norm_row(ks, 16384, cols)
    for rows, cols in ((131072, 1024),) if quick else ((131072, 512), (131072, 1024), (65536, 2048)):
        yield rows_by_index(ks, "gather", rows, cols)
        yield rows_by_index(ks, "scatter", rows, cols)


def copy_row(n):
    a, b = torch.randn(n, device=DEV), torch.empty(n, device=DEV)
    r = Row("device copy 256 MiB", "GB/s", 2 * n * 4 / 1e9)
    r.peers["torch"] = lambda: b.copy_(a)
    return r


def warps_for(cols):
    return 4 if cols <= 2048 else 8 if cols <= 8192 else 16


def softmax_row(ks, rows, cols):
    x = torch.randn(rows, cols, device=DEV, dtype=BF16)
    out = torch.empty_like(x)
    r = Row(f"softmax bf16 {rows} x {cols}", "GB/s", 2 * x.nbytes / 1e9)
    r.kernel(ks, lambda k: lambda: k.softmax[(rows,)](x, out, cols, BLOCK=cols, num_warps=warps_for(cols)))
    r.peers["torch"] = lambda: torch.softmax(x, 1)
    r.check = (lambda: out, lambda: torch.softmax(x, 1))
    return r


def layer_norm_row(ks, rows, cols):
    x, w, b = torch.randn(rows, cols, device=DEV, dtype=BF16), torch.randn(cols, device=DEV, dtype=BF16), torch.randn(cols, device=DEV, dtype=BF16)
    out = torch.empty_like(x)
    r = Row(f"layer_norm bf16 {rows} x {cols}", "GB/s", 2 * x.nbytes / 1e9, 5e-2)
    r.kernel(ks, lambda k: lambda: k.layer_norm[(rows,)](x, w, b, out, cols, 1e-5, BLOCK=cols, num_warps=warps_for(cols)))
    r.peers["torch"] = lambda: torch.nn.functional.layer_norm(x, (cols,), w, b, 1e-5)
    r.check = (lambda: out, r.peers["torch"])
    return r


def rows_by_index(ks, kind, rows, cols, block=16):
    """gather or scatter of rows through a descriptor; Triton does that from sm_100 on only, and so by pointers, as tegula does besides."""
    x = torch.randn(rows, cols, device=DEV, dtype=BF16)
    index = torch.randperm(rows, device=DEV, dtype=torch.int32)
    out, wide = torch.empty_like(x), index.long()
    r = Row(f"{kind} bf16 rows {rows} x {cols}", "GB/s", 2 * x.nbytes / 1e9)

    def launch(k, name):
        kernel = getattr(k, name)
        return lambda: kernel[(rows // block,)](x, index, out, rows, COLS=cols, ROWS=block)
    r.peers["tegula"] = launch(ks["tegula"], f"{kind}_rows")
    for who, k in ks.items():
        r.peers[f"{who} (pointers)"] = launch(k, f"{kind}_rows_pointers")
    r.peers["torch"] = (lambda: torch.index_select(x, 0, index, out=out)) if kind == "gather" else (lambda: out.index_copy_(0, wide, x))
    r.check = (lambda: out, lambda: x[wide] if kind == "gather" else torch.empty_like(x).index_copy_(0, wide, x))
    return r


def matmul_row(ks, M, N, K, dtype=BF16, kind="pointer", ctas=1):
    a = torch.randn(M, K, device=DEV).to(dtype)
    b = torch.randn(N, K, device=DEV).to(dtype)
    out = torch.empty(M, N, device=DEV, dtype=BF16 if dtype == BF16 else torch.float16)
    name = f"{'bf16' if dtype == BF16 else 'fp8'} matmul {kind} {M}x{N}x{K}"
    r = Row(name + (f" num_ctas={ctas}" if ctas > 1 else ""), "TFLOP/s", 2 * M * N * K / 1e12)
    BM, BN, BK, warps, stages = (128, 256, 64, 8, 3) if M > 64 else (16, 128, 128, 4, 4)
    if dtype != BF16:
        BK = 128
    tiles = lambda n: cdiv(M, BM * n) * cdiv(N, BN)
    if kind == "pointer":
        bt = b.T.contiguous() if dtype == BF16 else b.T  # Hopper's fp8 instructions want K innermost
        def make(k, n):
            return lambda: k.matmul[(tiles(n),)](a, bt, out, M, N, K, a.stride(0), a.stride(1), bt.stride(0), bt.stride(1), out.stride(0), 1,
                                                 BM=BM * n, BN=BN, BK=BK, GROUP=8 // n, num_warps=warps, num_stages=stages, num_ctas=n)
    else:
        def make(k, n):
            programs = min(torch.cuda.get_device_properties(0).multi_processor_count // n, tiles(n))
            return lambda: k.matmul_persistent[(programs,)](a, b, out, M, N, K, BM=BM * n, BN=BN, BK=BK, GROUP=8 // n, PROGRAMS=programs,
                                                            num_warps=warps, num_stages=stages, num_ctas=n)
    # Triton 3.6 does not compile the persistent kernel for clusters; its best is without.
    for who, k in ks.items():
        r.peers[who] = make(k, ctas if who == "tegula" else 1)
    if dtype == BF16:
        r.peers["cuBLAS"] = lambda: torch.mm(a, b.T)
        r.check = (lambda: out, r.peers["cuBLAS"])
    else:
        one = torch.ones((), device=DEV)
        r.peers["cuBLAS"] = lambda: torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=BF16)
        r.check = (lambda: out, r.peers["cuBLAS"])
    return r


def w4_row(ks, M, N=8192, K=8192):
    a = torch.randn(M, K, device=DEV, dtype=BF16)
    b = torch.randint(-128, 128, (K // 2, N), device=DEV, dtype=torch.int8)
    scale = torch.rand(N, device=DEV, dtype=BF16)
    out = torch.empty(M, N, device=DEV, dtype=BF16)
    low, high = (b << 4) >> 4, b >> 4
    full = torch.stack((low, high), 1).reshape(K, N).to(BF16)
    BM, BN, BK, warps = (16, 64, 128, 4) if M <= 16 else (128, 128, 64, 8)
    r = Row(f"w4a16 matmul {M}x{N}x{K}", "us", None)
    r.kernel(ks, lambda k: lambda: k.matmul_w4[(cdiv(M, BM), cdiv(N, BN))](a, b, scale, out, M, N, K, BM=BM, BN=BN, BK=BK, num_warps=warps, num_stages=4))
    r.peers["cuBLAS (bf16)"] = lambda: torch.mm(a, full)
    r.check = (lambda: out, lambda: torch.mm(a, full).float() * scale.float())
    return r


def quickest(launches):
    """The function that is quickest, of those that run at all: what a tuner would take."""
    best, why = None, None
    for f in launches:
        try:
            times = []
            for _ in range(4):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                f()
                end.record()
                torch.cuda.synchronize()
                times.append(begin.elapsed_time(end))
            if best is None or min(times) < best[0]:
                best = min(times), f
        except Exception as e:
            why = e
    if best is None:
        raise why
    return best[1]


def scaled_row(ks, fmt, n=4096):
    """dot_scaled of square matrices with a scale for each 32 elements, and the same kernel with the widening written out; tiles as a tuner would choose them."""
    pack = 2 if fmt == "e2m1" else 1
    bits = [torch.randint(0, 256, (n, n // pack), device=DEV, dtype=torch.uint8) for _ in range(2)]
    if fmt == "e2m1":
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], device=DEV, dtype=BF16)
        wide = [torch.stack((values[(x & 15).int()], values[(x >> 4).int()]), 2).reshape(n, n) for x in bits]
        operands = bits
    else:
        dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[fmt]
        operands = [torch.randn(n, n, device=DEV).to(dtype) for _ in range(2)]
        wide = [x.to(BF16) for x in operands]
    scales = [torch.randint(124, 130, (n, n // 32), device=DEV, dtype=torch.uint8) for _ in range(2)]
    wide = [x * torch.exp2(s.float() - 127).to(BF16).repeat_interleave(32, 1) for x, s in zip(wide, scales)]
    out = torch.empty(n, n, device=DEV, dtype=BF16)
    tiles = [(128, 128, 128, 4, 3), (128, 128, 128, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 256, 64, 8, 3), (128, 256, 128, 8, 2), (64, 128, 128, 4, 3)]
    r = Row(f"dot_scaled {fmt} {n}x{n}x{n}", "TFLOP/s", 2 * n**3 / 1e12)

    def make(k, by_hand):
        def launch(bm, bn, bk, warps, stages):
            return lambda: k.matmul_mx[(cdiv(n, bm) * cdiv(n, bn),)](operands[0], scales[0], operands[1], scales[1], out, n, n, n, n // pack, n // pack,
                                                                     n // 32, n // 32, BM=bm, BN=bn, BK=bk, GROUP=8, FORMAT=fmt, G=32, BY_HAND=by_hand,
                                                                     num_warps=warps, num_stages=stages)
        chosen = []

        def run():
            if not chosen:
                chosen.append(quickest([launch(*t) for t in tiles]))
            chosen[0]()
        return run
    for who, k in ks.items():
        r.peers[who] = make(k, False)
        r.peers[f"{who} (by hand)"] = make(k, True)
    r.peers["cuBLAS (bf16)"] = lambda: torch.mm(wide[0], wide[1].T)
    r.check = (lambda: out, r.peers["cuBLAS (bf16)"])
    return r


def attention_row(ks, D, N, causal, kernel="attention", tile=None):
    """tile: BM, BN, warps and stages, named in the row; as the benchmark likes them best otherwise."""
    BM, BN, warps, stages = tile or (128, 128 if D == 64 else 64, 8, 3)
    heads = max(1, 16384 * 16 * 128 // (N * D) // 4)
    q, k_, v = (torch.randn(heads, N, D, device=DEV, dtype=BF16) for _ in range(3))
    out = torch.empty_like(q)
    r = Row(f"{kernel.replace('_', ' ')} bf16 D={D} N={N}{' causal' if causal else ''}{tile_name(tile)}", "TFLOP/s",
            4 * heads * N * N * D * (0.5 if causal else 1) / 1e12)
    r.kernel(ks, lambda k: lambda: getattr(k, kernel)[(N // BM, heads)](q, k_, v, out, D**-0.5, N, BM=BM, BN=BN, D=D, CAUSAL=causal,
                                                                  num_warps=warps, num_stages=stages))
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def cudnn():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return sdpa(q[None], k_[None], v[None], is_causal=causal)[0]
    r.peers["cuDNN"] = cudnn
    r.check = (lambda: out, cudnn)
    return r


def tile_name(tile):
    return f", tile {tile[0]}x{tile[1]} {tile[-2]} warps {tile[-1]} stages" if tile else ""


def matmul_tile_row(ks, n, kind, tile):
    BM, BN, BK, warps, stages = tile
    a, b = (torch.randn(n, n, device=DEV, dtype=BF16) for _ in range(2))
    bt, out = b.T.contiguous(), torch.empty(n, n, device=DEV, dtype=BF16)
    r = Row(f"bf16 matmul {kind} {n}x{n}x{n}{tile_name(tile)}", "TFLOP/s", 2 * n**3 / 1e12)

    def make(k):
        if kind == "descriptors":
            return lambda: k.matmul_descriptors[(cdiv(n, BM), cdiv(n, BN))](a, b, out, n, n, n, BM=BM, BN=BN, BK=BK, num_warps=warps, num_stages=stages)
        return lambda: k.matmul[(cdiv(n, BM) * cdiv(n, BN),)](a, bt, out, n, n, n, n, 1, n, 1, n, 1, BM=BM, BN=BN, BK=BK, GROUP=8, num_warps=warps, num_stages=stages)
    r.kernel(ks, make)
    r.peers["cuBLAS"] = lambda: torch.mm(a, b.T)
    r.check = (lambda: out, r.peers["cuBLAS"])
    return r


def rows_tiles(ks, quick):
    """Tiles that other people chose."""
    if quick:
        return
    for kernel in "attention", "attention_pointers":
        for tile in (128, 128, 8, 2), (64, 64, 4, 3):
            yield attention_row(ks, 128, 4096, False, kernel, tile)
    yield attention_row(ks, 128, 4096, True, "attention", (64, 64, 4, 3))
    for kind, tile in ("descriptors", (128, 128, 64, 8, 3)), ("descriptors", (128, 128, 64, 4, 3)), ("pointers", (128, 128, 64, 4, 3)):
        yield matmul_tile_row(ks, 4096, kind, tile)


def rows_dot(ks, quick):
    for shape in ((4096, 4096, 4096),) if quick else ((8192, 8192, 8192), (8192, 8192, 512), (8192, 8192, 2048), (4096, 4096, 4096)):
        yield matmul_row(ks, *shape)
        yield matmul_row(ks, *shape, kind="persistent")
    for shape in (1024, 1024, 8192), (16, 8192, 8192):
        yield matmul_row(ks, *shape)
    for n in (4096,) if quick else (8192, 4096):
        yield matmul_row(ks, n, n, n, torch.float8_e4m3fn)
    for n in (4096,) if quick else (8192, 4096):
        for kind in "pointer", "persistent":
            yield matmul_row(ks, n, n, n, kind=kind, ctas=2)
    for m in 16, 4096:
        yield w4_row(ks, m)
    for fmt in "e4m3", "e5m2", "e2m1":
        yield scaled_row(ks, fmt)
    for D, N, causal in ((128, 4096, False),) if quick else ((128, 4096, False), (128, 4096, True), (128, 16384, True), (64, 4096, False), (64, 4096, True)):
        yield attention_row(ks, D, N, causal)
        yield attention_row(ks, D, N, causal, "attention_pointers")


# -------------------------------------------------------------------------------------------------------------------- measuring

def measure(row, rounds):
    """{peer: seconds or text of an error}"""
    result, alive = {}, {}
    for who, f in row.peers.items():
        try:
            f()
            torch.cuda.synchronize()
            if row.check and who.startswith(("tegula", "triton")):
                got, want = row.check[0]().float(), row.check[1]().float()
                scale = want.abs().max().item() or 1.0
                worst = (got - want).abs().max().item() / scale
                if not worst < row.tolerance:
                    raise ValueError(f"wrong result: off by {worst:.3g} of the largest value")
                row.check[0]().zero_()
            alive[who] = f
        except Exception as e:  # the row goes on with the others
            result[who] = (str(e).strip() or type(e).__name__).splitlines()[0][:160]
    flush = torch.empty(1 << 28, dtype=torch.int8, device=DEV)  # five times the L2
    times = {who: [] for who in alive}
    peers = list(alive.items())
    for i in range(rounds + 3):
        # What ran before a kernel is worth half a per cent of its time, so each peer comes behind every other one.
        for who, f in peers[i % len(peers):] + peers[:i % len(peers)]:
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            f()
            end.record()
            if i >= 3:
                times[who].append((begin, end))
    torch.cuda.synchronize()
    for who, events in times.items():
        result[who] = statistics.median(a.elapsed_time(b) for a, b in events) / 1e3
    return result


def launch_rows(ks):
    """Microseconds per launch of an empty kernel from Python, by count of arguments. Peers and counts take turns: clocks and other work of the host change."""
    tensors = [torch.zeros(1, device=DEV) for _ in range(5)]
    rows, times = [], {}
    for n in 0, 19:
        args = () if n == 0 else (*tensors, *range(64, 73), 32, 32, 32, 32, 32)
        rows.append({"name": f"launch, {n} arguments", "unit": "us (less is better)"})
        for who, k in ks.items():
            f = k.empty0[(1,)] if n == 0 else k.empty19[(1,)]
            kw = {"device": "cuda"} if n == 0 and who == "tegula" else {}
            try:
                f(*args, **kw)
                times[len(rows) - 1, who] = f, args, kw, []
            except Exception as e:
                rows[-1][who] = str(e).splitlines()[0][:160]
    for _ in range(15):
        for f, args, kw, list_ in times.values():
            list_.append(per_launch(f, args, kw))
    for (row, who), (*_, list_) in times.items():
        rows[row][who] = statistics.median(list_)
    return rows


def per_launch(f, args, kw, count=1000):
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    if kw:
        for _ in range(count):
            f(*args, **kw)
    else:
        for _ in range(count):
            f(*args)
    return (time.perf_counter() - t0) / count * 1e6


def cold_rows(ks, times):
    """Milliseconds of a cold compilation, the best of `times` processes (gpu_cold.py)."""
    best = {}
    for who in ks:
        for _ in range(times):
            p = subprocess.run([sys.executable, HERE / "gpu_cold.py", who], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if p.returncode:
                best[who] = (p.stderr.strip() or "failed").splitlines()[-1][:160]
                break
            now = json.loads(p.stdout.splitlines()[-1])
            best[who] = {k: min(v, best.get(who, now)[k]) for k, v in now.items()}
    names = next((list(v) for v in best.values() if isinstance(v, dict)), [])
    return [{"name": f"cold compile, {n}", "unit": "ms (less is better)", **{who: v[n] if isinstance(v, dict) else v for who, v in best.items()}} for n in names]


def describe():
    p = torch.cuda.get_device_properties(0)
    import tegula
    info = {"gpu": p.name, "torch": torch.__version__, "cuda": torch.version.cuda, "tegula": tegula.__version__, "assembler": tegula._core.assembler(),
            "date": time.strftime("%Y-%m-%d %H:%M")}
    try:
        import triton
        info["triton"] = triton.__version__
    except ImportError:
        pass
    return info


def show(record):
    unit = record["unit"]
    cells = []
    for who, v in record.items():
        if who not in ("name", "unit"):
            cells.append(f"{who} {v:.4g}" if isinstance(v, float) else f"{who}: {v}")
    print(f"{record['name']:42} {unit:10} " + "   ".join(cells), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rows", default="", help="only rows whose name contains this")
    p.add_argument("--json", help="file for the table")
    p.add_argument("--quick", action="store_true", help="fewer shapes and rounds")
    p.add_argument("--rounds", type=int, default=50, help="of each row")
    p.add_argument("--without-triton", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    ks = compilers()
    if a.without_triton:
        ks.pop("triton", None)
    records = []
    info = describe()
    print(", ".join(f"{k} {v}" for k, v in info.items()), flush=True)
    for text, rows in ("launch", launch_rows), ("cold compile", lambda ks: cold_rows(ks, 1 if a.quick else 4)):
        for r in rows(ks) if a.rows in text else ():
            records.append(r)
            show(r)
    for rows in rows_tiles, rows_memory, rows_dot:
        for row in rows(ks, a.quick):
            if a.rows not in row.name:
                continue
            record = {"name": row.name, "unit": row.unit}
            for who, v in measure(row, min(20, a.rounds) if a.quick else a.rounds).items():
                record[who] = v if isinstance(v, str) else row.work / v if row.work else v * 1e6
            records.append(record)
            show(record)
    if a.json:
        Path(a.json).write_text(json.dumps({"machine": info, "rows": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
