# instantiate: forms(x: *i32, n: i32, ACT='relu')
import triton
import triton.language as tl


@triton.jit
def forms(x, n, ACT):
    a = b = n
    if ACT in ("relu", "gelu") and "x" not in ACT:
        a += 1
    for i, v in enumerate((a, 7)):
        if v > n:
            break
        b += i * v
    for c in ACT:
        b += len(c)
    tl.store(x, sum([a, abs(b)]))
