# compile: atomics(x:*i32:16, bins:*i32:16, total:*i32:16, ticket:*i32:16, tickets:*i32:16, n:i32, BLOCK:256)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def atomics(x, bins, total, ticket, tickets, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, at < n, other=0)
    tl.atomic_add(bins + v, 1, at < n)
    tl.atomic_add(total, tl.sum(v, 0))
    mine = tl.atomic_add(ticket, 1)
    tl.store(tickets + mine, mine + tl.max(v, 0) * 0)
