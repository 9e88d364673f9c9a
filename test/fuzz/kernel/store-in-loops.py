# compile: store_in_loops(a:*fp16:16, b:*fp16:16, c:*fp32:16, x:*i32:16, M:i32, N:i32:16, n:i32, BM:64, BN:64, BK:16, MODE:'same')
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def product(a, b, c, M, N, i, j, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile that lives where a dot leaves it, so that it is stored by TMA where there is TMA; a is [BM, BK], b [BN, BK]."""
    ad, bd = tl.make_tensor_descriptor(a, [BM, BK], [BK, 1], [BM, BK]), tl.make_tensor_descriptor(b, [BN, BK], [BK, 1], [BN, BK])
    return tl.dot(ad.load([0, 0]), bd.load([0, 0]).T)
@triton.jit
def store_in_loops(a, b, c, x, M, N, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MODE: tl.constexpr):
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    cols = tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :]
    acc = product(a, b, c, M, N, 0, 0, BM, BN, BK)
    for i in range(n):
        if MODE == "same":      # the last one counts
            cd.store([0, 0], (acc + i).to(cd.dtype))
        elif MODE == "shifted":  # overlapping: the order counts
            cd.store([i * 3, 0], (acc + i).to(cd.dtype))
        elif MODE == "in front": # the same, some of it by pointers
            cd.store([i * 3 - n, 0], (acc + i).to(cd.dtype))
        elif MODE == "two":     # two stores with buffers in common, neighbours
            cd.store([2 * i * BM, 0], (acc + i).to(cd.dtype))
            cd.store([(2 * i + 1) * BM, 0], (acc - i).to(cd.dtype))
        elif MODE == "chain":   # the second is the first of the next iteration
            cd.store([i * BM, 0], (acc + i).to(cd.dtype))
            cd.store([i * BM + BM, 0], (acc - i).to(cd.dtype))
        elif MODE == "read":    # what was stored is read again, by other threads
            cd.store([0, 0], (acc + i).to(cd.dtype))
            acc += tl.trans(tl.load(c + cols).to(tl.float32))
        elif MODE == "copied":  # and by a descriptor
            cd.store([0, 0], (acc + i).to(cd.dtype))
            acc += tl.trans(cd.load([0, 0]).to(tl.float32))
        elif MODE == "over":    # stored by pointers before
            tl.store(c + cols, tl.trans(acc * 2).to(cd.dtype))
            cd.store([0, 0], (acc + i).to(cd.dtype))
        elif MODE == "sum":     # memory for a reduction in between
            cd.store([i * BM, 0], (acc + tl.sum(acc, axis=0)[None, :] + tl.sum(acc, axis=1)[:, None]).to(cd.dtype))
        elif MODE == "branch":
            if i % 2:
                cd.store([0, 0], (acc + i).to(cd.dtype))
            else:
                tl.atomic_add(x, 1)
            acc += tl.sum(acc, axis=0)[None, :]
        else:                   # reductions and stores of the same bytes
            cd.store([0, 0], acc.to(cd.dtype))
            cd.atomic_add([0, 0], acc.to(cd.dtype))
            cd.atomic_add([0, 0], acc.to(cd.dtype))
            acc += 1
