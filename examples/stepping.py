"""Looking into a kernel: in the interpreter Python itself runs it, so that print, breakpoint() and ordinary helpers work in it.

`python examples/stepping.py` prints what one program of a kernel holds; `python examples/stepping.py --stop` stops in it in the debugger
(`p peak`, `n` for the next line, `c` to go on)."""
import sys

import numpy as np
import tegula
import tegula.language as tl


def is_program(condition):
    """Is the program that runs one of `pid_0 = 1,pid_1 > 2`?"""
    ids = {f"pid_{axis}": int(tl.program_id(axis)) for axis in range(3)}
    compare = {"=": lambda a, b: a == b, "<": lambda a, b: a < b, ">": lambda a, b: a > b}
    return all(compare[op](ids[name], int(value)) for name, op, value in map(str.split, condition.split(",")))


def print_if(text, condition):
    if is_program(condition):
        print(text)


def breakpoint_if(condition):
    if "--stop" in sys.argv and is_program(condition):
        breakpoint()


@tegula.jit
def peaks_kernel(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + i, mask=i < cols, other=-float("inf"))
    peak = tl.max(v, axis=0)
    where = tl.argmax(v, axis=0)
    breakpoint_if("pid_0 = 1")
    print_if(f"row {int(row)}: {v}\n  peak {float(peak)} at {int(where)}", "pid_0 = 1")
    tl.store(out + row, peak)


def peaks(x):
    rows, cols = x.shape
    out = np.empty(rows, x.dtype)
    with tegula.interpret():  # without it, kernels are compiled, and cannot call print_if
        peaks_kernel[(rows,)](x, out, cols, BLOCK=tegula.next_power_of_2(cols))
    return out


def main():
    x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float16)
    assert (peaks(x) == x.max(axis=1)).all()
    print("peaks of 3 rows, in the interpreter: right")


if __name__ == "__main__":
    main()
