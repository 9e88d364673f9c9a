# compile: words(x:*i32:16, b:*u8:16, out:*fp16:16, N:64)
import triton
import triton.language as tl


@triton.jit
def words(x, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.inline_asm_elementwise("{ .reg .pred p; setp.lt.s32 p, $1, 0; @p lop3.b32 $0, $1, 15, 3, 0xea; }", "=&r,r", [tl.load(x + i)], tl.int32, True, 1)
    h, w = tl.inline_asm_elementwise("prmt.b32 $0, $3, 0, 0x4140; mov.b32 $1, $3; cvt.rn.f16x2.f32 $2, 0f3F800000, 0f40000000;", "=&r,=&r,=r,r",
                                     [tl.load(b + i)], (tl.uint8, tl.float16), is_pure=False, pack=4)
    tl.store(out + i, w + v.to(tl.float16) + h.to(tl.float16))
