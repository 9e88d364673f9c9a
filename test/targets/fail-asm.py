# RUN: compile %s::unknown --sig 'x:*i32:16' -t sim --emit llvm
# RUN: compile %s::unknown --sig 'x:*i32:16' -t cpu:x86-64 --emit asm
# RUN: compile %s::nested --sig 'x:*i32:16' -t sim --emit llvm
# RUN: compile %s::x86 --sig 'x:*i32:16' -t sim --emit llvm
# RUN: compile %s::mistyped --sig 'x:*i32:16' -t cpu:x86-64 --emit asm
# RUN: compile %s::registers --sig 'x:*i32:16' -t cpu:x86-64 --emit asm
# RUN: compile %s::memory --sig 'x:*i32:16' -t cpu:x86-64 --emit asm
# RUN: compile %s::flags --sig 'x:*i32:16' -t cpu:x86-64 --emit asm
# RUN: compile %s::narrow --sig 'x:*i32:16' -t sm_90a --emit ptx
# RUN: compile %s::foreign --sig 'x:*i32:16' -t sm_90a --emit ptx
import triton
import triton.language as tl


@triton.jit
def unknown(x):
    i = tl.arange(0, 128)
    v = tl.inline_asm_elementwise(
        """
        shl.b32 $0, $1, 1;
        shfl.sync.idx.b32 $0, $0, 0, 31, -1;
        """, "=r,r", [tl.load(x + i)], tl.int32, is_pure=False, pack=1)
    tl.store(x + i, v)


@triton.jit
def lane(v):
    return tl.inline_asm_elementwise("mov.u32 $0, %laneid; // $1", "=r,r", [v], tl.int32, True, 1)


@triton.jit
def nested(x):
    tl.store(x, lane(tl.load(x)))


@triton.jit
def x86(x):
    i = tl.arange(0, 128)
    tl.store(x + i, tl.inline_asm_elementwise("leal 1($1), $0", "=r,r", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def mistyped(x):
    i = tl.arange(0, 4)
    tl.store(x + i, tl.inline_asm_elementwise("lael 1($1), $0", "=r,r", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def registers(x):
    i = tl.arange(0, 4)
    tl.store(x + i, tl.inline_asm_elementwise("leal 1($1), $0", "=w,r", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def memory(x):
    i = tl.arange(0, 4)
    tl.store(x + i, tl.inline_asm_elementwise("movl $1, $0", "=m,r", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def flags(x):
    i = tl.arange(0, 4)
    tl.store(x + i, tl.inline_asm_elementwise("nop # $0 $1", "={eflags},{r8d}", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def narrow(x):
    i = tl.arange(0, 128)
    tl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,r", [tl.load(x + i).to(tl.int64)], tl.int64, True, 1)


@triton.jit
def foreign(x):
    i = tl.arange(0, 128)
    tl.inline_asm_elementwise("leal 1($1), $0", "=x,r", [tl.load(x + i)], tl.int32, True, 1)
