"""What the CTAs of a loop with `split` read of each other: in each turn every CTA from another one, and its own version from its own memory."""
import re

import numpy as np
import pytest
import tegula
import tegula.language as tl


@tegula.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    rm, rn, rk = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa, pb = a + rm[:, None] * K + rk[None, :], b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, split=SPLIT):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(tl.float16))


@pytest.mark.parametrize("parts", (2, 4, 8))
def test_exchange(parts):
    a, b, c = (np.zeros((128, 128), np.float16) for _ in range(3))
    ptx = matmul.warmup(a, b, c, 128, 128, BM=128, BN=128, BK=64, SPLIT=parts, grid=(1,), device="sim", num_warps=8).compile_for("sm_90a").stage("ptx")
    exchange = re.search(r"barrier\.cluster\.wait.*?barrier\.cluster\.arrive", ptx, re.S)[0]
    own = len(re.findall(r"ld\.shared\.v4\.b32", exchange))
    assert own == 16 // parts  # 64 sums a thread in fp32, of all CTAs together
    rank, = re.findall(r"mov\.u32\s+(%r\d+), %cluster_ctarank;", ptx)
    distance = {to: int(n) for to, n in re.findall(rf"xor\.b32\s+(%r\d+), {rank}, (\d+);", ptx)}
    read = [distance[of] for of in re.findall(r"mapa\.shared::cluster\.u32 %r\d+, %r\d+, (%r\d+);", exchange)]
    assert read == [n for n in range(1, parts) for _ in range(own)]
    assert exchange.count("ld.shared::cluster.v4.b32") == len(read)
    assert len(re.findall(r"barrier\.cluster\.arrive", ptx)) == 2


def test_blocks_share_a_multiprocessor():
    """Clusters of 4 and 8 with one block on a multiprocessor leave some idle, and a grid may take two rounds: rings are as small as those of a loop that is not split. Clusters of two do not."""
    a, b, c = (np.zeros((128, 128), np.float16) for _ in range(3))
    shared = [matmul.warmup(a, b, c, 128, 128, BM=128, BN=128, BK=64, SPLIT=parts, grid=(1,), device="sim", num_warps=8, num_stages=3).compile_for("sm_90a").info()["shared"] for parts in (1, 2, 4, 8)]
    assert shared[0] == shared[2] == shared[3] <= 113 * 1024 < shared[1]
