# Loops that ask for `split`, of which an iteration has to wait for the one before.
# RUN: compile %s::scaled --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::scaled --sig 'x:*fp32:16, n:i32' -t cpu:x86-64 --emit asm
# RUN: compile %s::last --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::stores --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::behind --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::nested --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::two --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::sums --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
# RUN: compile %s::three --sig 'x:*fp32:16, n:i32' -t sm_90a --emit ptx
import tegula
import tegula.language as tl


@tegula.jit
def scaled(x, n):
    i = tl.arange(0, 64)
    acc = tl.zeros((64, ), tl.float32)
    for k in tl.range(0, n, split="auto"):
        acc = acc * 0.5 + tl.load(x + k * 64 + i)
    tl.store(x + i, acc)


@tegula.jit
def last(x, n):
    i = tl.arange(0, 64)
    v = tl.zeros((64, ), tl.float32)
    for k in tl.range(0, n, split=4):
        v = tl.load(x + k * 64 + i)
    tl.store(x + i, v)


@tegula.jit
def stores(x, n):
    for k in tl.range(0, n, split=4):
        tl.store(x + k, 1.0)


@tegula.jit
def behind(x, n):
    acc = 0.0
    tl.store(x, 1.0)
    for k in tl.range(0, n, split=4):
        acc += tl.load(x + k)
    tl.store(x + n, acc)


@tegula.jit
def nested(x, n):
    for j in range(n):
        acc = 0.0
        for k in tl.range(0, n, split=4):
            acc += tl.load(x + k)
        tl.store(x + n + j, acc)


@tegula.jit
def two(x, n):
    acc = 0.0
    for k in tl.range(0, n, split=4):
        acc += tl.load(x + k)
    for k in tl.range(0, n, split=2):
        acc += tl.load(x + k)
    tl.store(x + n, acc)


@tegula.jit
def three(x, n):
    acc = 0.0
    for k in tl.range(0, n, split=3):
        acc += tl.load(x + k)
    tl.store(x + n, acc)


@tegula.jit
def sums(x, n):
    acc, all = 0.0, 0.0
    for k in tl.range(0, n, split=4):
        acc += tl.load(x + k)
        all += acc
    tl.store(x + n, all)
