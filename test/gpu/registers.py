#!/usr/bin/env python3
"""Registers, spills and shared memory of the benchmark's kernels: `registers.py` compares with registers.txt, `--record` writes it anew.

One line per kernel and target. What an assembler makes of a kernel is its own business, so the table names the one it was recorded with, and
scripts/requirements.txt pins that one.
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = HERE / "registers.txt"
TEGULA = ROOT / "build/bin/tegula"
TARGETS = "sm_80", "sm_90a"
# Of two assemblers the library: what a machine has of programs is not pinned.
ENVIRONMENT = dict(os.environ, TEGULA_CACHE_DIR="", TEGULA_PTXAS="")
MORE_REGISTERS = 8  # that are no reason to complain

POINTERS = {"bf16": "*bf16:16", "fp8": "*fp8e4nv:16", "u8": "*u8:16", "fp16": "*fp16:16", "fp32": "*fp32:16", "i8": "*i8:16"}


def signature(pointers, rest):
    return ", ".join([f"{name}:{POINTERS[t]}" for name, t in pointers.items()] + [rest])


def matmul(t, m=128, n=256, k=64):
    return signature({"a": t, "b": t, "c": "bf16" if t == "bf16" else "fp16"},
                     "M:i32:16, N:i32:16, K:i32:16, stride_am:i32:16, stride_ak:1, " +
                     ("stride_bk:i32:16, stride_bn:1" if t == "bf16" else "stride_bk:1, stride_bn:i32:16") +
                     f", stride_cm:i32:16, stride_cn:1, BM:{m}, BN:{n}, BK:{k}, GROUP:8")


def rows():
    """(name, kernel, signature, warps, stages): as bench/gpu.py launches them."""
    yield "add", "add", signature({"x": "fp32", "y": "fp32", "out": "fp32"}, "n:i32:16, BLOCK:1024"), 4, 3
    for cols, warps in (1024, 4), (4096, 8), (32768, 16):
        yield f"softmax {cols}", "softmax", signature({"x": "bf16", "out": "bf16"}, f"cols:i32:16, BLOCK:{cols}"), warps, 3
    for cols, warps in (1024, 4), (8192, 8), (16384, 16):
        yield (f"layer_norm {cols}", "layer_norm", signature({"x": "bf16", "w": "bf16", "b": "bf16", "out": "bf16"}, f"cols:i32:16, eps:fp32, BLOCK:{cols}"),
               warps, 3)
    yield "matmul bf16", "matmul", matmul("bf16"), 8, 3
    yield "matmul bf16 skinny", "matmul", matmul("bf16", 16, 128, 128), 4, 4
    yield "matmul fp8", "matmul", matmul("fp8", k=128), 8, 3
    yield ("matmul bf16 persistent", "matmul_persistent",
           signature({"a": "bf16", "b": "bf16", "c": "bf16"}, "M:i32:16, N:i32:16, K:i32:16, BM:128, BN:256, BK:64, GROUP:8, PROGRAMS:132"), 8, 3)
    for m, blocks, warps in (16, (16, 64, 128), 4), (4096, (128, 128, 64), 8):
        yield (f"w4a16 {m}", "matmul_w4", signature({"a": "bf16", "b": "i8", "scale": "bf16", "c": "bf16"}, "M:i32:16, N:i32:16, K:i32:16, "
                                                    + ", ".join(f"{n}:{v}" for n, v in zip(("BM", "BN", "BK"), blocks))), warps, 4)
    for t, fmt in ("fp8", "e4m3"), ("u8", "e2m1"):
        for by_hand in False, True:
            yield (f"dot_scaled {fmt}{' by hand' if by_hand else ''}", "matmul_mx",
                   signature({"a": t, "sa": "u8", "b": t, "sb": "u8", "c": "bf16"}, "M:i32:16, N:i32:16, K:i32:16, stride_a:i32:16, stride_b:i32:16, "
                             f"stride_sa:i32:16, stride_sb:i32:16, BM:128, BN:128, BK:128, GROUP:8, FORMAT:'{fmt}', G:32, BY_HAND:{by_hand}"), 8, 3)
    for kernel in "attention", "attention_pointers":
        for d in 64, 128:
            for causal in False, True:
                yield (f"{kernel} {d}{' causal' if causal else ''}", kernel,
                       signature({"q": "bf16", "k": "bf16", "v": "bf16", "out": "bf16"},
                                 f"scale:fp32, N:i32:16, BM:128, BN:{128 if d == 64 else 64}, D:{d}, CAUSAL:{causal}"), 8, 3)


CASES = [(row, target) for row in rows() for target in TARGETS]


def run(*args):
    p = subprocess.run([str(TEGULA), *args], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=ROOT, stdin=subprocess.DEVNULL)
    return p.stdout


def measure(row, target):
    """{"registers": ..., "spills": bytes, "shared": bytes}, or the text of an error."""
    _, kernel, sig, warps, stages = row
    out = run("compile", f"bench/gpu_kernels.py::{kernel}", "--sig", sig, "-t", target, "--num-warps", str(warps), "--num-stages", str(stages), "--info")
    m = re.search(r"(\d+) registers per thread, (\d+) bytes spilled", out)
    shared = re.search(r"(\d+) bytes of shared memory", out)
    if m and shared:
        return {"registers": int(m[1]), "spills": int(m[2]), "shared": int(shared[1])}
    return out.strip().replace("\n", " ")


def assembler():
    m = re.search(r"^assembler of GPU code: (.*)$", run("info"), re.M)
    return m[1] if m else "none"


def recorded():
    """The assembler's name and {(name, target): numbers}; None for a kernel that cannot be compiled for the target."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    table = {}
    for line in lines[1:]:
        name, target, rest = (part.strip() for part in line.split("|"))
        numbers = rest.split()
        table[name, target] = dict(zip(("registers", "spills", "shared"), map(int, numbers))) if numbers[0].isdigit() else None
    return lines[0].removeprefix("assembler: "), table


def record():
    lines = ["# Written by test/gpu/registers.py --record: kernel | target | registers per thread, bytes spilled, bytes of shared memory per block.",
             "# Attention and the persistent matmul on sm_90a have a producer warpgroup and setmaxnreg, which libnvJitLink ignores and the driver's assembler",
             "# does not: their consumers have 232 registers on a GPU, not the 168 that this assembler gives to every warp.",
             f"assembler: {assembler()}"]
    for row, target in CASES:
        now = measure(row, target)
        text = "{registers:4} {spills:6} {shared:7}".format(**now) if isinstance(now, dict) else "not compiled: " + now.rpartition("/")[2][:90]
        lines.append(f"{row[0]:32} | {target:6} | {text}")
        print(lines[-1], flush=True)
    TABLE.write_text("\n".join(lines) + "\n")


def complaint(was, now):
    """Why `now` is worse than what was recorded; "" if it is not."""
    if not isinstance(now, dict):
        return "" if was is None else f"does not compile: {now}"
    if was is None:
        return ""
    if now["spills"] > was["spills"]:
        return f"spills {now['spills']} bytes, recorded are {was['spills']}"
    if now["registers"] > was["registers"] + MORE_REGISTERS:
        return f"takes {now['registers']} registers, recorded are {was['registers']}"
    return ""


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--record", action="store_true")
    if p.parse_args().record:
        record()
        return 0
    _, table = recorded()
    worse = 0
    for row, target in CASES:
        was, now = table.get((row[0], target)), measure(row, target)
        why = complaint(was, now)
        worse += bool(why)
        print(f"{row[0]:32} {target:6} {was or '-'} -> {now} {why and '<- ' + why}", flush=True)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
