"""Run by test_launch_forms.py in a process of its own, with the stand-in for the CUDA driver: launches that want different forms of a kernel's code."""
import tegula
import tegula.language as tl


@tegula.jit
def total(x, out, cols, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(acc))


@tegula.jit
def add(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@tegula.jit
def exponentials(x, out, cols, BLOCK: tl.constexpr):
    """Threads meet in each iteration."""
    most, total = float("-inf"), 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=float("-inf"))
        now = tl.maximum(most, tl.max(v))
        total = total * tl.exp(most - now) + tl.sum(tl.exp(v - now))
        most = now
    tl.store(out + tl.program_id(0), most + tl.log(total))


@tegula.jit
def counted(x, out, cols, BLOCK: tl.constexpr):
    """The same in another spelling."""
    most, total = float("-inf"), 0.0
    for i in range(tl.cdiv(cols, BLOCK)):
        at = i * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=float("-inf"))
        now = tl.maximum(most, tl.max(v))
        total = total * tl.exp(most - now) + tl.sum(tl.exp(v - now))
        most = now
    tl.store(out + tl.program_id(0), most + tl.log(total))


class Array:
    """As an array of CuPy looks."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {"data": (address, False), "typestr": "<f4", "shape": (1 << 20,), "strides": None, "version": 3, "stream": 0x77}


def say(name, *kernels):
    """The kernels by number, in the order in which they first come."""
    numbers = {}
    print(name + ":", *(numbers.setdefault(k.hash, len(numbers)) for k in kernels), flush=True)


x, out = (Array(tegula._core.allocate("cuda:0", 4 << 20)) for _ in range(2))
many = (1 << 14,)
say("trips", *(total[many](x, out, cols, BLOCK=1024) for cols in (992, 65536, 1008, 65520, 992)))
say("grid", *(total[(programs,)](x, out, 65536, BLOCK=1024) for programs in (1 << 14, 132, 1 << 13, 66, 1 << 14)))
say("straight", *(add[(programs,)](x, out, n, BLOCK=1024) for programs, n in ((1 << 14, 992), (132, 65536))))
warm = total.warmup(x, out, 65536, BLOCK=2048, grid=many)
say("warmup", warm, total[many](x, out, 65536, BLOCK=2048), total.warmup(x, out, 992, BLOCK=2048, grid=many), total[many](x, out, 992, BLOCK=2048))
handle = total.bind(x, out, 65536, BLOCK=1024, grid=many)
handle(x, out, 65536), handle(x, out, 992)
say("counted", *(counted[many](x, out, cols, BLOCK=4096, num_warps=8) for cols in (65536, 4080)))
rows = [exponentials[(programs,)](x, out, cols, BLOCK=4096, num_warps=8) for programs, cols in ((1 << 14, 65536), (1 << 14, 4080), (132, 65536), (1 << 14, 65520))]
say("ahead", *rows)
print("loads:", *(k.asm["ptx"].count("ld.global") for k in rows[:2]))
print("compiles:", tegula._core.compile_count())
print("hashes:", *(total[many](x, out, cols, BLOCK=1024).hash for cols in (992, 65536)))
