# compile: where_and_when(out:*i32:16, when:*i64:16, BLOCK:256)
import math
import triton
import triton.language as tl
from triton.language.extra import cuda, libdevice

@triton.jit
def where_and_when(out, when, BLOCK: tl.constexpr):
    begin = cuda.globaltimer()
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(begin.dtype == tl.int64)
    place = tl.extra.cuda.smid()
    tl.static_assert(place.dtype == tl.int32)
    tl.store(out + i, place)
    # All of a program reads one number.
    tl.store(when + i, tl.zeros([BLOCK], tl.int64) + begin)
    tl.store(when + i, tl.load(when + i) * 0 + begin, mask=i % 2 == 0)
    end = cuda.globaltimer()
    tl.store(when + i, end, mask=i % BLOCK == BLOCK - 1)
