"""What a launch through autotune and heuristics costs beyond the bare one: `python bench/wrapped_launch.py [device]`, also part of `make bench`.

The least of many batches, bare and wrapped taking turns. Beside heuristics the bare launch calls the same function of the same dict by hand.
"""
import functools
import sys
import time

import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def empty3(x, y, n, BLOCK: tl.constexpr):
    pass


@tegula.jit
def empty19(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, n, BLOCK: tl.constexpr):
    pass


@tegula.jit
def even3(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    pass


GRID = (1,)


def is_even(args):
    return args["n"] % 2 == 0


def tuned(f):
    return tegula.autotune([tegula.Config({"BLOCK": b}) for b in (16, 64)], key=["n"])(f)


def cases(x):
    """[(name, bare launch, wrapped launch)]"""
    heuristics = tegula.heuristics({"EVEN": is_even})
    few, many = (x, x, 64), (*[x] * 5, *range(64, 77), 64)
    tuned3, tuned19, even = tuned(empty3), tuned(empty19), heuristics(even3)
    outside, inside = tuned(heuristics(even3)), heuristics(tuned(even3))

    def by_hand():
        even3[GRID](*few, BLOCK=16, EVEN=is_even({"x": x, "y": x, "n": 64, "BLOCK": 16}))

    return [("3 args, autotuned", lambda: empty3[GRID](*few, BLOCK=16), lambda: tuned3[GRID](*few)),
            ("19 args, autotuned", lambda: empty19[GRID](*many, BLOCK=16), lambda: tuned19[GRID](*many)),
            ("3 args, heuristics", by_hand, lambda: even[GRID](*few, BLOCK=16)),
            ("3 args, autotuned over heuristics", by_hand, lambda: outside[GRID](*few)),
            ("3 args, heuristics over autotuned", by_hand, lambda: inside[GRID](*few))]


def turns(launches, synchronize=lambda: None, rounds=400, batch=200):
    """Microseconds of each; what has a method `batch` does a batch itself. Short batches: others may use the machine, and a GPU's queue must not fill up."""

    def repeat(launch):
        for _ in range(batch):
            launch()

    batches = [functools.partial(f.batch, batch) if hasattr(f, "batch") else functools.partial(repeat, f) for f in launches]
    least = [1e9] * len(launches)
    for run in batches:
        run()
    for _ in range(rounds):
        for i, run in enumerate(batches):
            synchronize()
            start = time.perf_counter()
            run()
            least[i] = min(least[i], (time.perf_counter() - start) / batch * 1e6)
    return least


def measure(x, synchronize=lambda: None, rounds=400, batch=200):
    """(name, microseconds bare, microseconds wrapped) of each case."""
    for name, *launches in cases(x):
        yield name, *turns(launches, synchronize, rounds, batch)


def sample(device):
    """An array on the device, numpy's without one, and what waits for it."""
    if device == "cpu":
        return np.zeros(64, np.float32), lambda: None
    import torch
    return torch.zeros(64, device=device.replace("torch", "cpu")), torch.cuda.synchronize if device.startswith("cuda") else lambda: None


def main():
    x, synchronize = sample(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    for name, bare, wrapped in measure(x, synchronize):
        print(f"{name:35s} bare {bare:5.2f} us, wrapped {wrapped:5.2f} us: + {wrapped - bare:.2f}")


if __name__ == "__main__":
    main()
