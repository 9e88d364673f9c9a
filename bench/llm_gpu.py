"""Kernels of examples/llm on a GPU, in the shapes of an 8B decoder, beside torch (cuBLAS, cuDNN) and the same text through Triton where that is installed: `llm.py --device cuda`.

Each side is a CUDA graph of one call for each of several copies of the weights, together larger than the L2 cache; the sides take turns, and what counts is the median over the
rounds. A row is compared with torch's result first; `--rounds 0` does nothing else. `torch` does the same work. Beside it stands what does a part of it, or another work that people compare with: `product`, the product
alone where our kernel does more (a norm, silu(gate) * up, the residual's addition); `bf16`, the product of weights of twice the size where ours has int8; `attention`, without rotation and append.
Tiles of dense products are read from examples/llm/src/Tiles.cpp.
"""
import json
import math
import re
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from sources import load_as
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parent.parent
BF16, FP32 = torch.bfloat16, torch.float32
HIDDEN, INTERMEDIATE, HQ, HK, D, PAGE, VOCAB, GROUP = 4096, 14336, 32, 8, 128, 64, 128256, 64
FILES = ("attention", "elementwise", "matmul", "norms", "quantized", "sampling")


def cdiv(a, b):
    return (a + b - 1) // b


def compilers():
    """{name: {file: module of kernels}}"""
    def load(who, language, aliases):
        return {f: load_as(f"llm_{f}_{who}", ROOT / f"examples/llm/kernels/{f}.py", aliases) for f in FILES}
    import tegula
    import tegula.language
    out = {"tegula": load("tegula", tegula, {"tegula": tegula, "tegula.language": tegula.language})}
    try:
        import triton
        import triton.language
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        out["triton"] = load("triton", triton, {"tegula": triton, "tegula.language": triton.language})
    except ImportError as e:
        print(f"no Triton: {e}")
    return out


def normal(*shape, dtype=BF16, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def weights(n, k):
    """Copies of a matrix, too many for the cache."""
    return [normal(n, k, scale=k**-0.5) for _ in range(max(2, math.ceil(4e8 / (2 * n * k))))]


def silu_pair(y, n):
    return F.silu(y[:, :n]) * y[:, n:]


def cores():
    return torch.cuda.get_device_properties(0).multi_processor_count


def table_of_tiles():
    """The rows of Tiles.cpp: (product, above, rows, outputs, is one wave, the numbers of a Tiling in their order)."""
    def number(word):
        return 10**9 if word == "any" else int(word)
    text = (ROOT / "examples/llm/src/Tiles.cpp").read_text()
    rows = re.findall(r"^    \{Product::(\w+), (\w+), (\w+), (\w+), (true|false), \{([\d, ]+), \{([\w, ]+)\}([\d, ]*)\}\},$", text, re.M)
    assert len(rows) == text.count("    {Product::"), "a row of Tiles.cpp that is not understood"
    for product, above, most, outputs, wave, tile, how, more in rows:
        bm, bn, bk, lines = (int(n) for n in tile.split(","))
        warps, stages, _, ctas = (*how.split(", "), *("4", "3", "false", "1")[len(how.split(", ")):])
        parts, ahead, beside, low = (*(int(n) for n in more.split(",")[1:]), *(1, 0, 0, 0)[more.count(","):])
        yield product, number(above), number(most), number(outputs), wave == "true", dict(bm=bm, bn=bn, bk=bk, lines=lines, warps=int(warps), stages=int(stages), ctas=int(ctas), parts=parts, more=beside, low=low)


def tiling(rows, outputs, inputs, product):
    """Tiling::of()."""
    for kind, above, most, widest, wave, t in table_of_tiles():
        tiles = cdiv(rows, t["bm"] + t["low"]) * cdiv(outputs, t["bn"] + t["more"])
        if kind == product and above < rows <= most and outputs <= widest and (not wave or tiles <= cores() // t["ctas"]):
            if t["parts"] > 1:
                held = max(1, 232448 // ((t["bm"] + t["low"] + t["bn"] + t["more"]) * t["bk"] * 2 * t["stages"]))
                t["parts"] = min(t["parts"], 2**int(math.log2(max(1, cores() * held // tiles))))
            if product == "Added" and rows > 512 and inputs > 8192 and t["ctas"] == 1:
                t["stages"] = 3
            return {**t, "tiles": tiles * max(1, t["parts"])}


class Row:
    """`make(kernels)` gives a function of a copy's number that launches; `library(i)` is torch's, and `others` are torch's that do other work; `result()`, by default `out`, is compared with
    `want()`."""
    def __init__(self, name, unit, work, copies, make, library, out, want, tolerance=2e-2, result=None, **others):
        self.name, self.unit, self.work, self.copies, self.make, self.library = name, unit, work, copies, make, library
        self.others = {who: f for who, f in others.items() if f}
        self.out, self.want, self.tolerance, self.result = out, want, tolerance, result or (lambda: out)


SHAPES = {"qkv": ((HQ + 2 * HK) * D, HIDDEN, False, False), "o": (HIDDEN, HQ * D, True, False), "gate, up and swiglu": (INTERMEDIATE, HIDDEN, False, True), "down": (HIDDEN, INTERMEDIATE, True, False),
          "logits": (VOCAB, HIDDEN, False, False)}


def row_products():
    """One row: with the norm in front of it (qkv, gate and up, logits) or the residual's addition behind it."""
    for name, (n, k, add, pair) in SHAPES.items():
        ws, x, scales = weights(n * (1 + pair), k), normal(1, k), torch.ones(k, device="cuda", dtype=BF16)
        out, rounded = torch.zeros(1, n, device="cuda"), torch.zeros(1, n, device="cuda", dtype=BF16)
        # RowTiling of Tiles.cpp
        bn, bk, ahead, warps, registers = (2, 1024, 2, 2, 160) if pair else (4, 1024, 4, 4, 128) if add and k <= 4096 else (16, 512, 2, 8, 128) if add else (8, 256, 1, 1, None) if n > 65536 else (4, 512, 1, 1, None)

        def make(who, ks, ws=ws, x=x, n=n, k=k, add=add, pair=pair, out=out, rounded=rounded, bn=bn, bk=bk, ahead=ahead, scales=scales, warps=warps, registers=registers):
            f = ks["matmul"].gemv_fused
            early = {"launch_pdl": True, **({"maxnreg": registers} if registers else {})}
            return lambda i: f[(cdiv(n, bn),)](x, scales, ws[i], out, rounded, n, k, 1e-5, NORM=not add, ADD=add, PAIR=pair, EARLY=True, BN=bn, BK=bk, AHEAD=ahead, num_warps=warps, **early)

        def want(ws=ws, x=x, n=n, add=add, pair=pair):
            a = x.float() if add else F.rms_norm(x.float(), (x.shape[1],), eps=1e-5)
            y = F.linear(a, ws[0].float())
            return silu_pair(y, n) if pair else y
        stream = normal(1, n)

        def library(i, ws=ws, x=x, n=n, add=add, pair=pair, scales=scales, stream=stream):
            if add:
                return torch.addmm(stream, x, ws[i].T)
            y = F.linear(F.rms_norm(x, (x.shape[1],), scales, 1e-5), ws[i])
            return silu_pair(y, n) if pair else y
        yield Row(f"1 row, {name} {k} x {n * (1 + pair)}", "GB/s", 2 * n * (1 + pair) * k / 1e9, len(ws), make, library, out, want, product=lambda i, ws=ws, x=x: F.linear(x, ws[i]))


def dequantized(q, scales, n, k, bits):
    """w [n, k] in bf16 of the layout in quantized.py."""
    b = q.view(n // 64, k // GROUP, GROUP * bits // 32, 64, 4)
    if bits == 8:
        levels = b.view(torch.int8).permute(0, 3, 1, 2, 4)
    else:
        levels = torch.stack(((b & 15).to(torch.int8) - 8, (b >> 4).to(torch.int8) - 8)).permute(1, 4, 2, 0, 3, 5)
    return (levels.reshape(n, k // GROUP, GROUP).float() * scales.view(n // 64, k // GROUP, 64).transpose(1, 2).reshape(n, k // GROUP, 1).float()).reshape(n, k).to(BF16)


def tiled(ks, x, ws, out, n, k, product):
    """Model::tiledProduct(): `out` [parts, rows, n]."""
    rows, t, f = len(x), tiling(len(x), n, k, product), ks["matmul"].tiled_matmul
    programs = min(t["tiles"], cores() // t["ctas"]) if rows > 256 else t["tiles"]
    return lambda i: f[(programs,)](x, ws[i], out, rows, n, k, n, out.shape[0] * out.shape[1], ADD=t["parts"] == 0, PAIR=product == "Paired", EARLY=False, SPLITS=max(1, t["parts"]), BM=t["bm"], BN=t["bn"],
                                    BK=t["bk"], LINES=t["lines"], MORE=t["more"], LOW=t["low"], num_warps=t["warps"], num_stages=t["stages"], num_ctas=t["ctas"])


def quantized_products():
    """int8 and int4 weights, as Model::widenedGemv, from three rows on Model::sharedMatmul, whose parts the next kernel adds, and above 64 rows Model::dequantize and the product of dense weights launch
    them. torch's side: _weight_int4pack_mm with groups as long as ours; of int8, for which it has no product on GPUs, weights to bf16, the product of that, and scales of outputs behind it, as torchao
    does it."""
    for bits in (8, 4):
        for rows in (1, 4, 8, 16, 32, 64, 128, 512):
            for name, (n, k, _, pair) in SHAPES.items():
                if name == "logits" and rows > 32:
                    continue
                size, copies = n * k * bits // 8, max(1, math.ceil(2e8 / (n * k * (1 + pair) * bits // 8)))
                q = [torch.randint(0, 256, (1 + pair, size), device="cuda", dtype=torch.uint8) for _ in range(copies)]
                scales = [(torch.rand(1 + pair, n * k // GROUP, device="cuda") * k**-0.5 / 2**bits).to(BF16) for _ in range(copies)]
                # SharedTiling of Tiles.cpp
                step, bm = math.gcd(k // GROUP, 4), 16 if rows <= 16 else 32 if rows <= 32 else 64
                half = bits == 8 and bm * (1 + pair) == 64
                width = 32 if half else 64
                splits = 1 if pair or rows <= 2 or rows > 64 else math.gcd(k // GROUP // step, min(4, 2**int(math.log2(max(1, 4 * cores() // cdiv(n, width))))))
                narrow = bm == 16 and splits > 1 and bits == 4
                how = dict(num_warps=2 if narrow else step if half or bm * (1 + pair) <= 32 else 2 * step, num_stages=3 if narrow or half and bm == 32 else 2)
                x, out = normal(rows, k), torch.zeros(splits, rows if rows <= 2 or rows > 64 else bm, n, device="cuda", dtype=BF16 if pair else FP32)
                columns, warps, lines = 8 if n < 48 * cores() else 16, 4, GROUP * bits // 32
                dense = torch.empty((1 + pair) * n, k, device="cuda", dtype=BF16) if rows > 64 else None
                groups = math.gcd(k // GROUP, max(1, (4 if pair and rows >= 4 else 8) * 32 * warps // columns // lines))

                def make(who, ks, q=q, scales=scales, x=x, out=out, n=n, k=k, pair=pair, rows=rows, bits=bits, columns=columns, warps=warps, count=groups * lines, step=step, splits=splits, how=how, bm=bm,
                         dense=dense, width=width):
                    if rows > 64:
                        multiply = tiled(ks, x, [dense], out, n, k, "Paired" if pair else "Plain")

                        def both(i):
                            for p in range(1 + pair):
                                ks["quantized"].dequantize_weights[(n // 64, k // GROUP)](q[i][p], scales[i][p], dense[p * n:], n, k, G=GROUP, BITS=bits)
                            multiply(0)
                        return both
                    if rows > 2:
                        f = ks["quantized"].shared_matmul
                        return lambda i: f[(1, cdiv(n, width), splits)](x, q[i][0], scales[i][0], q[i][-1], scales[i][-1], out, rows, n, k, n, bm, PAIR=pair, SPLITS=splits, G=GROUP, BITS=bits, BM=bm, STEP=step, COLS=width, **how)
                    f = ks["quantized"].widened_gemv
                    return lambda i: f[(1, cdiv(n, columns))](x, q[i][0], scales[i][0], q[i][-1], scales[i][-1], out, out, rows, n, k, n, PAIR=pair, EACH=0, G=GROUP, BITS=bits, BM=rows, ROWS=count, COLS=columns, num_warps=warps)

                def want(q=q, scales=scales, x=x, n=n, k=k, pair=pair, bits=bits):
                    y = [F.linear(x.float(), dequantized(a, s, n, k, bits).float()) for a, s in zip(q[0], scales[0])]
                    return F.silu(y[0]) * y[1] if pair else y[0]
                if bits == 4:
                    packed = [torch._convert_weight_to_int4pack(torch.randint(0, 256, ((1 + pair) * n, k // 2), device="cuda", dtype=torch.uint8), 8) for _ in range(copies)]
                    zeros = torch.ones(k // GROUP, (1 + pair) * n, 2, device="cuda", dtype=BF16)
                    product = lambda i, packed=packed, zeros=zeros, x=x: torch._weight_int4pack_mm(x, packed[i], GROUP, zeros)
                    more = {"product": product if pair else None}
                else:
                    ws = weights(n * (1 + pair), k)[:copies]
                    levels = [torch.randint(-127, 128, ((1 + pair) * n, k), device="cuda", dtype=torch.int8) for _ in range(copies)]
                    factors = normal((1 + pair) * n)
                    product = lambda i, levels=levels, factors=factors, x=x: F.linear(x, levels[i].to(BF16)) * factors
                    more = {"bf16": lambda i, ws=ws, x=x: F.linear(x, ws[i % len(ws)])}
                library = (lambda i, product=product, n=n: silu_pair(product(i), n)) if pair else product
                yield Row(f"{rows} row{'s' if rows > 1 else ''}, int{bits} {name} {k} x {n * (1 + pair)}", "GB/s", (1 + pair) * (size + n * k // GROUP * 2) / 1e9, copies, make, library, out, want,
                          result=lambda out=out, rows=rows: out[:, :rows].float().sum(0), **more)


def tile_products():
    for rows in (4, 32, 64, 128, 256, 384, 512, 4096):
        for name, (n, k, add, pair) in SHAPES.items():
            if name == "logits":
                continue
            product = "Added" if add else "Paired" if pair else "Plain"
            ws, x, stream, t = weights(n * (1 + pair), k), normal(rows, k), normal(rows, n), tiling(rows, n, k, product)
            # Parts are added by the norm behind them.
            out = torch.zeros(max(1, t["parts"]), cdiv(rows, t["bm"]) * t["bm"] if t["parts"] > 1 else rows, n, device="cuda", dtype=BF16 if t["parts"] else FP32)

            def want(ws=ws, x=x, n=n, pair=pair):
                y = F.linear(x, ws[0]).float()
                return silu_pair(y, n) if pair else y

            def library(i, ws=ws, x=x, n=n, add=add, pair=pair, stream=stream):
                if add:
                    return torch.addmm(stream, x, ws[i].T)
                y = F.linear(x, ws[i])
                return silu_pair(y, n) if pair else y
            work = (2 * rows * n * (1 + pair) * k / 1e12, "TFLOP/s") if rows > 64 else (2 * n * (1 + pair) * k / 1e9, "GB/s")
            yield Row(f"{rows} rows, {name} {k} x {n * (1 + pair)}", work[1], work[0], len(ws), lambda who, ks, x=x, ws=ws, out=out, n=n, k=k, product=product: tiled(ks, x, ws, out, n, k, product), library, out, want,
                      result=lambda out=out, rows=rows: out[:, :rows].float().sum(0), product=(lambda i, ws=ws, x=x: F.linear(x, ws[i])) if add or pair else None)


def attention_rows():
    for sequences, keys, new in ((1, 4096, 4096), (1, 512, 512), (1, 160, 1), (1, 4096, 1), (8, 1024, 1), (32, 1024, 1)):
        pages, prefill = cdiv(keys, PAGE), new > 1
        count = 1 if prefill else 8
        ks_, vs = ([normal(sequences * pages, HK, PAGE, D) for _ in range(count)] for _ in "kv")
        q = normal(sequences * new, HQ, D)
        table = torch.arange(sequences * pages, device="cuda", dtype=torch.int32)
        queries = 128 // (HQ // HK) if prefill else 1
        tiles = torch.tensor([(s * new + i, min(queries, new - i), keys - new + i, s) for s in range(sequences) for i in range(0, new, queries)], device="cuda", dtype=torch.int32)
        out = torch.empty_like(q)
        splits = 1 if prefill or keys <= 512 else max(1, 2**int(math.log2(max(1, cores() // (sequences * HK)))))
        parts, sums = torch.empty(splits * sequences, HQ, D, device="cuda"), torch.empty(splits * sequences, HQ, 2, device="cuda")
        how = dict(num_warps=8, num_stages=3) if prefill else dict(num_warps=4, num_stages=2 if sequences * splits * HK >= cores() else 4)

        def make(who, ks, a=(q, ks_, vs, table, tiles, out, parts, sums), splits=splits, queries=queries, prefill=prefill, pages=pages, how=how):
            q, k, v, table, tiles, out, parts, sums = a
            f, g = ks["attention"].paged_attention, ks["attention"].attention_parts

            def run(i):
                f[(HK, len(tiles), splits)](q, k[i], v[i], parts if splits > 1 else out, sums, tiles, table, pages, k[i].numel() // D, D**-0.5, HQ=HQ, HK=HK, D=D, PAGE=PAGE, QUERIES=queries,
                                            BM=128 if prefill else 16, BN=64, SPLITS=splits, DESCRIPTORS=prefill, EARLY=False, **how)
                if splits > 1:
                    g[(len(tiles), HQ)](parts, sums, out, tiles, HQ=HQ, D=D, SPLITS=splits, EARLY=False)
            return run
        dense = [tuple(t.reshape(sequences, pages, HK, PAGE, D).transpose(1, 2).reshape(sequences, HK, -1, D)[:, :, :keys].repeat_interleave(HQ // HK if prefill else 1, 1) for t in p) for p in zip(ks_, vs)]
        q4 = q.reshape(sequences, new, HQ, D).transpose(1, 2)

        def library(i, q4=q4, dense=dense, prefill=prefill):
            if not prefill:
                return F.scaled_dot_product_attention(q4, *dense[i], enable_gqa=True)
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q4, *dense[i], is_causal=True)
        flops = 4 * sequences * HQ * D * (new * (keys - new) + new * (new + 1) // 2) / 1e12
        size = 2 * sequences * keys * HK * D * 2 / 1e9
        yield Row(f"attention, {'prefill of' if prefill else f'decode {sequences} x'} {keys}", "TFLOP/s" if prefill else "GB/s", flops if prefill else size, count, make, library, out,
                  lambda l=library, shape=q.shape: l(0).transpose(1, 2).reshape(shape).float(), 3e-2)


def decode_rows():
    """From the product that makes queries, keys and values on: rotation, append and attention. torch's cache has no pages."""
    for sequences, keys in ((1, 160), (1, 4096), (8, 1024), (32, 160), (32, 1024)):
        pages, before, count = cdiv(keys, PAGE), keys - 1, 8
        ks_, vs = ([normal(sequences * pages, HK, PAGE, D) for _ in range(count)] for _ in "kv")
        qkv = normal(sequences, HQ + 2 * HK, D, dtype=FP32)
        table = torch.arange(sequences * pages, device="cuda", dtype=torch.int32)
        tiles = torch.tensor([(s, 1, before, s) for s in range(sequences)], device="cuda", dtype=torch.int32)
        cosines, sines = torch.ones(keys, D // 2, device="cuda"), torch.zeros(keys, D // 2, device="cuda")
        out = torch.empty(sequences, HQ, D, device="cuda", dtype=BF16)
        splits = 1 if keys <= 512 else max(1, 2**int(math.log2(max(1, cores() // (sequences * HK)))))
        many = sequences * splits * HK >= cores()
        parts, sums = torch.empty(splits * sequences, HQ, D, device="cuda"), torch.empty(splits * sequences, HQ, 2, device="cuda")

        def make(who, ks, a=(qkv, ks_, vs, table, tiles, out, parts, sums, cosines, sines), splits=splits, pages=pages, many=many):
            qkv, k, v, table, tiles, out, parts, sums, cosines, sines = a
            f, g = ks["attention"].decode_attention, ks["attention"].attention_parts

            def run(i):
                f[(HK, len(tiles), splits)](qkv, k[i], v[i], parts if splits > 1 else out, sums, cosines, sines, tiles, table, pages, D**-0.5, cosines, cosines, cosines, 0.0, 0, HQ=HQ, HK=HK, D=D, PAGE=PAGE, BM=16, FIRST=64 if many else 256,
                                            BN=64, SPLITS=splits, EARLY=False, num_warps=4 if many else 8, num_stages=2 if many else 3)
                if splits > 1:
                    g[(len(tiles), HQ)](parts, sums, out, tiles, HQ=HQ, D=D, SPLITS=splits, EARLY=False)
            return run
        q4 = qkv[:, :HQ].to(BF16).reshape(sequences, 1, HQ, D).transpose(1, 2)

        def flat(t, new, pages=pages, sequences=sequences, before=before):
            old = t.reshape(sequences, pages, HK, PAGE, D).transpose(1, 2).reshape(sequences, HK, -1, D)[:, :, :before]
            return torch.cat((old, new.to(BF16)[:, :, None]), 2).contiguous()
        dense = [(flat(k, qkv[:, HQ:HQ + HK]), flat(v, qkv[:, HQ + HK:])) for k, v in zip(ks_, vs)]
        attention = lambda i, q4=q4, dense=dense: F.scaled_dot_product_attention(q4, *dense[i], enable_gqa=True)
        at, both = torch.full((sequences,), before, device="cuda", dtype=torch.int64), (torch.cat((cosines, cosines), 1), torch.cat((-sines, sines), 1))

        def library(i, qkv=qkv, dense=dense, at=at, both=both, before=before):
            """As Transformers does it."""
            c, s = both[0][at][:, None], both[1][at][:, None]
            heads = qkv[:, :HQ + HK]
            rotated = (heads * c + heads.roll(D // 2, 2) * s).to(BF16)
            k, v = dense[i]
            k[:, :, before] = rotated[:, HQ:]
            v[:, :, before] = qkv[:, HQ + HK:]
            return F.scaled_dot_product_attention(rotated[:, :HQ, None], k, v, enable_gqa=True)
        yield Row(f"decode from qkv on, {sequences} x {keys}", "GB/s", 2 * sequences * keys * HK * D * 2 / 1e9, count, make, library, out, lambda l=library, shape=out.shape: l(0).transpose(1, 2).reshape(shape).float(), 3e-2,
                  attention=attention)


def other_rows():
    rows = 4096
    x, delta, w, out = normal(rows, HIDDEN, dtype=FP32), torch.zeros(rows, HIDDEN, device="cuda"), torch.ones(HIDDEN, device="cuda", dtype=BF16), torch.empty(rows, HIDDEN, device="cuda", dtype=BF16)
    wide = w.float()
    yield Row(f"rms_norm {rows} x {HIDDEN}", "GB/s", 6 * x.numel() / 1e9, 1, lambda who, ks: lambda i: ks["norms"].rms_norm[(rows,)](x, delta, w, out, HIDDEN, 0, 1e-5, ADD=0, BLOCK=HIDDEN, num_warps=8),
              lambda i: F.rms_norm(x, (HIDDEN,), wide, 1e-5).bfloat16(), out, lambda: F.rms_norm(x, (HIDDEN,), wide, 1e-5))
    n = 8
    logits, chosen = normal(n, VOCAB, dtype=FP32), torch.empty(n, device="cuda", dtype=torch.int32)
    tops, places = torch.empty(n, 64, device="cuda"), torch.empty(n, 64, device="cuda", dtype=torch.int32)
    few = torch.empty(1, device="cuda", dtype=torch.int32)

    def argmax(who, ks, out):
        def run(i):
            ks["sampling"].argmax_parts[(len(out), 64)](logits, tops, places, VOCAB, BLOCK=1024)
            ks["sampling"].argmax_join[(len(out),)](tops, places, out, VOCAB, 64, BLOCK=64, num_warps=1)
        return run
    for out in (few, chosen):
        # Of a few microseconds: twenty in a graph, or what is measured is the launch of the graph.
        yield Row(f"argmax {len(out)} x {VOCAB}", "GB/s", 4 * len(out) * VOCAB / 1e9, 20, lambda who, ks, out=out: argmax(who, ks, out), lambda i, x=logits[:len(out)]: x.argmax(1), out,
                  lambda x=logits[:len(out)]: x.argmax(1).float(), 1e-9)
    yield Row(f"argmax {n} x {VOCAB}, a program a row", "GB/s", 4 * logits.numel() / 1e9, 1, lambda who, ks: lambda i: ks["sampling"].argmax[(n,)](logits, chosen, VOCAB, BLOCK=1024), lambda i: logits.argmax(1),
              chosen, lambda: logits.argmax(1).float(), 1e-9)
    for count in (1, 8, 32):
        cold = [torch.full((count,), v, device="cuda", dtype=t) for v, t in ((1e-3, FP32), (50, torch.int32), (0.9, FP32))] + [torch.arange(count, device="cuda", dtype=torch.int32), torch.zeros(count, device="cuda", dtype=torch.int32)]
        x, out = normal(count, VOCAB, dtype=FP32), torch.empty(count, device="cuda", dtype=torch.int32)
        x[torch.arange(count), torch.randint(VOCAB, (count,))] = 8  # no other one is near, whatever is drawn

        def library(i, x=x):
            """The k largest, their softmax, the part that holds p, a draw; so cold that it is the largest."""
            v, at = (x / 1e-3).topk(50, dim=1)
            p = torch.softmax(v, 1)
            return at.gather(1, torch.where(p.cumsum(1) - p < 0.9, p, 0).argmax(1, keepdim=True)).squeeze(1)

        def sample(who, ks, x=x, out=out, cold=cold, count=count):
            """SampleTiling of Tiles.cpp; Triton has no parts of a row that a cluster shares."""
            how = dict(BLOCK=131072, SCAN=2048, WHOLE=True, num_warps=8, num_ctas=8, **(dict(CUTS=1, maxnreg=128) if count > 14 else dict(CUTS=2))) if who == "tegula" else dict(BLOCK=8192, SCAN=8192, num_warps=16)
            return lambda i: ks["sampling"].sample[(count,)](x, out, *cold, VOCAB, **how)
        yield Row(f"sample top-k 50, top-p 0.9, {count} x {VOCAB}", "GB/s", 4 * x.numel() / 1e9, 5, sample, library, out, lambda x=x: x.argmax(1).float(), 1e-9)
    s, p = normal(rows, 4096, dtype=FP32), torch.empty(rows, 4096, device="cuda")
    yield Row(f"softmax {rows} x 4096", "GB/s", 8 * s.numel() / 1e9, 1, lambda who, ks: lambda i: ks["elementwise"].softmax[(rows,)](s, p, 4096, BLOCK=4096, num_warps=8), lambda i: torch.softmax(s, 1), p,
              lambda: torch.softmax(s, 1))


def captured(run, copies):
    for i in range(copies):
        run(i)
    torch.cuda.synchronize()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        for i in range(copies):
            run(i)
    return graph


def seconds(graph, copies):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    a.record()
    for _ in range(3):
        graph.replay()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b) / 3e3 / copies


def main(rows_with, rounds):
    sides, results, failed = compilers(), [], 0
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}; sides {', '.join(sides)}")
    for family in (row_products, quantized_products, tile_products, attention_rows, decode_rows, other_rows):
        for row in family():
            if rows_with not in row.name:
                continue
            graphs = {"torch": captured(row.library, row.copies)} if rounds else {}
            if rounds:
                graphs |= {who: captured(f, row.copies) for who, f in row.others.items()}
            want = row.want().float()
            for who, ks in sides.items():
                try:
                    run = row.make(who, ks)
                    row.out.zero_()
                    run(0)
                    error = ((row.result().float() - want).abs().max() / want.abs().max().clamp(min=1e-30)).item()
                    if not error <= row.tolerance:
                        raise ValueError(f"WRONG, off by {error:.2e} of the largest element")
                    if rounds:
                        graphs[who] = captured(run, row.copies)
                except Exception as e:  # a peer that fails says why
                    print(f"{row.name}: {who}: {str(e).splitlines()[0] if str(e) else type(e).__name__}")
                    failed += who == "tegula"
            if not rounds:
                continue
            times = {who: [] for who in graphs}
            for _ in range(rounds):
                for who, g in graphs.items():
                    times[who].append(seconds(g, row.copies))
            median = {who: statistics.median(t) for who, t in times.items()}
            ratio = {who: statistics.median(a / b for a, b in zip(times[who], times["tegula"])) for who in times if who != "tegula" and "tegula" in times}
            print(f"{row.name:<50} " + "  ".join(f"{who} {row.work / t:8.1f}" for who, t in median.items()) + f" {row.unit}  " + ", ".join(f"{r:.2f} of {who}" for who, r in ratio.items()), flush=True)
            results.append({"row": row.name, "unit": row.unit, "rates": {who: row.work / t for who, t in median.items()}, "ratio": ratio})
            del graphs
            torch.cuda.empty_cache()
    folder = ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "llm-gpu.json").write_text(json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": results}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main("", 5))
