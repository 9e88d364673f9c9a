# instantiate: bad(x: *fp32, h: *fp16, n: i32)
import triton
import triton.language as tl


@triton.jit
def bad(x, h, n):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    tl.inline_asm_elementwise(5, "=r,r", [i], tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", 5, [i], tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", i, tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], 32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], (), True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], tl.int32, n, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], tl.int32, True, 3)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], tl.int32, True, n)
    # One register for each constraint.
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i, i], tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $2;", "=r,r", [i], (tl.int32, tl.int32), True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [v], tl.float16, True, 4)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,=r,r", [tl.load(h + i)], tl.float16, True, 2)
    tl.inline_asm_elementwise("mov.b32 $0, $2;", "=r,r", [i], tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, ${1;", "=r,r", [i], tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $", "=r,r", [i], tl.int32, True, 1)
    tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i, tl.arange(0, 4)], tl.int32, True, 1)
    odd = tl.arange(0, 12)
    tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [odd.to(tl.uint8)], tl.uint8, True, 4)
    tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [odd], tl.int32, False, 1)
