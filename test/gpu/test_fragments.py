"""A wgmma that takes A from registers reads them until it is waited for: what the next iteration puts there is computed behind the wait."""
import re

import ml_dtypes
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def attention(q, k, v, w, out, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    a = tl.load(q + m[:, None] * D + d[None, :])
    factor = tl.load(w + m)
    acc = tl.zeros((BM, D), tl.float32)
    for i in range(0, N, BN):
        s = tl.dot(a, tl.load(k + (i + n)[None, :] * D + d[:, None]))
        # Made long before the sum is used.
        p = tl.exp2(s).to(tl.bfloat16) * factor[:, None]
        scale = tl.exp2(tl.max(s, axis=1))
        acc = tl.dot(p, tl.load(v + (i + n)[:, None] * D + d[None, :]), acc * scale[:, None])
    tl.store(out + m[:, None] * D + d[None, :], acc)


def test_fragments_are_made_behind_the_wait():
    x, out = np.zeros(64 * 256, ml_dtypes.bfloat16), np.zeros(64 * 256, np.float32)
    kernel = attention.warmup(x, x, x, x, out, 1024, 64, 64, 256, grid=(1,), device="sim", num_warps=4)
    gpu = kernel.compile_for("sm_90a").stage("gpu")
    loop = gpu[gpu.index("= for"):]
    fragments = re.findall(r"= dot (%[\w.]+), %[\w.]+, %[\w.]+ \{[^}]*async", loop)[-1]
    # Multiplied long before the sum in the kernel's text; the wait is where the sum is used, and the product behind it.
    assert loop.index("= dot_wait") < loop.index(f"{fragments} = fmul") and loop.count("= fmul") == 2
    assert loop.index("= reduce") < loop.index("= dot_wait")
