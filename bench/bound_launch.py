"""What a launch handle costs beside `kernel[grid](...)`: `python bench/bound_launch.py [device]`, also part of `make bench`. Empty kernels with 0 and 19 arguments.

The least of many batches, all ways taking turns. On a GPU, beside them: the driver's launch of the same kernel from C++ (bare_launch.cpp; $BARE_LAUNCH is its library, else
it is build/bin's), and Triton's launch where Triton is installed.
"""
import ctypes
import functools
import importlib.util
import os
import sys
from pathlib import Path

import kernels
from sources import load_as
from wrapped_launch import sample, turns

HERE = Path(__file__).resolve().parent


def cases(x, options):
    """[(name, arguments, launch by [grid], by a handle)]. The first two keep `kernel[grid]`; the last ones are what programs write."""
    others = [x, *(x.clone() if hasattr(x, "clone") else x.copy() for _ in range(4))]
    numbers = (*range(64, 73), 32, 32, 32, 32, 32)
    many, apart = (*[x] * 5, *numbers), (*others, *numbers)
    none, some = kernels.empty0[(1,)], kernels.empty19[(1,)]
    bound0, bound19 = kernels.empty0.bind(grid=(1,), **options), kernels.empty19.bind(*many, grid=(1,))
    bound_apart = kernels.empty19.bind(*apart, grid=(1,))
    warps = kernels.empty19.bind(*many, num_warps=4, grid=(1,))
    return [("0 args", (), (lambda: none(**options)) if options else lambda: none(), lambda: bound0()),
            ("19 args", many, lambda: some(*many), lambda: bound19(*many)),
            ("19 args, five tensors", apart, lambda: some(*apart), lambda: bound_apart(*apart)),
            ("19 args, an option", many, lambda: kernels.empty19[(1,)](*many, num_warps=4), lambda: warps(*many))]


class Bare:
    """The driver's launch of the kernel that `launch` launches, a batch a call."""

    def __init__(self, launch, arguments):
        kernel = launch()
        library = ctypes.CDLL(os.environ.get("BARE_LAUNCH", HERE.parent / "build/bin/libbare-launch.so"))
        library.bareFunction.restype = ctypes.c_void_p
        function = library.bareFunction(kernel.asm["ptx"].encode(), kernel.metadata.symbol.encode())
        if not function:
            sys.exit("the driver refuses the kernel")
        size = sum(4 if isinstance(a, int) else 8 for a in arguments)
        self.launches = functools.partial(library.bareLaunches, ctypes.c_void_p(function), kernel.metadata.threads, ctypes.c_size_t((size + 7) // 8 * 8 + 8))

    def batch(self, count):
        if failed := self.launches(count):
            sys.exit(f"cuLaunchKernelEx: {failed}")


def peers(name, arguments, plain):
    """[(who, launch)] on a GPU."""
    made = [("bare", Bare(plain, arguments))]
    if importlib.util.find_spec("triton"):
        their = load_as("kernels_triton", HERE / "gpu_kernels.py", {})
        f = (their.empty19 if arguments else their.empty0)[(1,)]
        made.append(("Triton", lambda: f(*arguments)))
    return made


def measure(x, options={}, synchronize=lambda: None, rounds=400, batch=200, beside=lambda *case: []):
    """(name, microseconds by [grid], by a handle, and by what is beside them) of each case."""
    for name, arguments, plain, bound in cases(x, options):
        others = beside(name, arguments, plain)
        times = turns([plain, bound, *(f for _, f in others)], synchronize, rounds, batch)
        yield name, *times[:2], *zip((who for who, _ in others), times[2:])


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    x, synchronize = sample(device)
    gpu = device == "cuda"
    for name, plain, bound, *others in measure(x, {"device": "cuda"} if gpu else {}, synchronize, beside=peers if gpu else lambda *case: []):
        text = "".join(f", {who} {t:5.3f} us" for who, t in others)
        bare = dict(others).get("bare")
        print(f"{name:22s} [grid] {plain:5.3f} us, handle {bound:5.3f} us{text}" + (f": the handle + {bound - bare:.3f}" if bare else ""), flush=True)


if __name__ == "__main__":
    main()
