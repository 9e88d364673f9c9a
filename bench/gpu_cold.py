#!/usr/bin/env python3
"""Milliseconds of a cold compilation in process, assembler included: `gpu_cold.py tegula|triton` prints a JSON object {kernel: ms}.

Every cache is off or empty. An empty kernel is compiled first, so that libraries are loaded and the context exists; what is timed is `warmup`, which ends
with code that the driver has accepted. gpu.py runs this several times in processes of their own and takes the best.
"""
import json
import os
import sys
import tempfile
import time

os.environ.update(CUDA_CACHE_DISABLE="1", TEGULA_CACHE_DIR="")
home = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = home.name

import torch  # noqa: E402

import gpu  # noqa: E402


def kernels(k):
    """(name, kernel, arguments, constants): the shapes of gpu.py's rows."""
    bf16 = torch.empty(4096, 4096, device="cuda", dtype=torch.bfloat16)
    f32 = torch.empty(1 << 20, device="cuda")
    tiles = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
    attention = {"BM": 128, "BN": 64, "D": 128, "CAUSAL": False, "num_warps": 8, "num_stages": 3}
    yield "add", k.add, (f32, f32, f32, 1 << 20), {"BLOCK": 1024}
    yield "softmax", k.softmax, (bf16, bf16, 4096), {"BLOCK": 4096, "num_warps": 8}
    yield "matmul", k.matmul, (bf16, bf16, bf16, 4096, 4096, 4096, 4096, 1, 4096, 1, 4096, 1), tiles
    yield "matmul persistent", k.matmul_persistent, (bf16, bf16, bf16, 4096, 4096, 4096), {**tiles, "PROGRAMS": 132}
    yield "attention", k.attention, (bf16, bf16, bf16, bf16, 0.088, 4096), attention
    yield "attention pointers", k.attention_pointers, (bf16, bf16, bf16, bf16, 0.088, 4096), attention


def main():
    k = gpu.compilers((sys.argv[1],))[sys.argv[1]]
    k.empty0.warmup(grid=(1,), **({"device": "cuda"} if sys.argv[1] == "tegula" else {}))
    result = {}
    for name, kernel, args, constants in kernels(k):
        start = time.perf_counter()
        kernel.warmup(*args, grid=(1,), **constants)
        result[name] = (time.perf_counter() - start) * 1e3
    print(json.dumps(result))


if __name__ == "__main__":
    main()
