"""What a launch handle costs beside `kernel[grid](...)`: `python bench/bound_launch.py [device]`, also part of `make bench`. Empty kernels with 0 and 19 arguments.

The least of many batches, both ways taking turns.
"""
import sys

import kernels
from wrapped_launch import sample, turns


def cases(x, options):
    """[(name, launch by [grid], by a handle)]. The first two keep `kernel[grid]`; the last one is what programs write."""
    many = (*[x] * 5, *range(64, 73), 32, 32, 32, 32, 32)
    none, some = kernels.empty0[(1,)], kernels.empty19[(1,)]
    bound0, bound19 = kernels.empty0.bind(grid=(1,), **options), kernels.empty19.bind(*many, grid=(1,))
    warps = kernels.empty19.bind(*many, num_warps=4, grid=(1,))
    return [("0 args", (lambda: none(**options)) if options else lambda: none(), lambda: bound0()),
            ("19 args", lambda: some(*many), lambda: bound19(*many)),
            ("19 args, an option", lambda: kernels.empty19[(1,)](*many, num_warps=4), lambda: warps(*many))]


def measure(x, options={}, synchronize=lambda: None, rounds=400, batch=200):
    """(name, microseconds by [grid], microseconds by a handle) of each case."""
    for name, *launches in cases(x, options):
        yield name, *turns(launches, synchronize, rounds, batch)


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    x, synchronize = sample(device)
    for name, plain, bound in measure(x, {"device": "cuda"} if device == "cuda" else {}, synchronize):
        print(f"{name:20s} [grid] {plain:5.3f} us, handle {bound:5.3f} us")


if __name__ == "__main__":
    main()
