"""What an entry of the zoo is: the table that the families (kernels/*.py) fill and the runner (run.py) reads.

    softmax = Entry("softmax", inputs=..., outputs=("out",), reference=..., shapes=..., small=..., dtypes=("fp32", "bf16"), bytes=...)

    @softmax.spelling("one block", configs("num_warps", 4, 8))
    def one_block(a, s, c):
        return Launch(softmax_kernel, (s.rows,), (a.x, a.out, s.cols), BLOCK=next_power_of_2(s.cols), **vars(c))

A spelling returns data, not an effect: the runner launches it, compiles it ahead of time or for another target. A family's file is loaded once for each
compiler, so the kernels it names are that compiler's.
"""
from types import SimpleNamespace


def cdiv(a, b):
    return (a + b - 1) // b


def next_power_of_2(n):
    return 1 << max(0, n - 1).bit_length()


class Record(SimpleNamespace):
    """A shape or a configuration; its text is its name in tables and in the ledger."""

    def __str__(self):
        return " ".join(f"{k}={v}" for k, v in vars(self).items())


def table(names, *rows):
    """Records from rows of values; a single value is a row of its own."""
    names = names.split()
    return [Record(**dict(zip(names, row if isinstance(row, tuple) else (row,), strict=True))) for row in rows]


configs = shapes = table


class Launch:
    """One kernel launch: `kernel[grid](*args, **options)`, where the options are constexprs and compiler options."""

    def __init__(self, kernel, grid, args, **options):
        self.kernel, self.grid, self.args, self.options = kernel, grid, args, options

    def __call__(self, **more):
        return self.kernel[self.grid](*self.args, **self.options, **more)


class Spelling:
    def __init__(self, name, configs, build, fits):
        self.name, self.configs, self.build, self.fits = name, configs, build, fits

    def launches(self, arrays, shape, config):
        made = self.build(arrays, shape, config)
        return made if isinstance(made, list) else [made]

    def configs_for(self, shape):
        return [c for c in self.configs if self.fits(shape, c)]


class Entry:
    """One operation.

    inputs(m, s, dtype)     arrays by name, outputs included, made by `m` (arrays.Maker) for shape `s`
    outputs                 names of the arrays that the kernels write
    reference(x, a, s)      the expected outputs, a tuple, of float arrays `a` by the module `x` (numpy or torch: what both have; arrays.py)
    shapes, small           what is measured; what is checked on cpu and sim, with extents that do not divide the tiles where the kernel has masks
    bytes(s, e), flops(s)   the work, with elements of e bytes; flops present: the unit is TFLOP/s, else GB/s
    tolerance               of the largest error, relative to the largest expected value (None: by dtype of the output)
    zeroed                  arrays that have to be zero before a launch (atomics)
    restored                arrays that the kernels change in place: a check starts from their first values
    counters                arrays that say what is left to do (a counter of tiles): zero before every launch, the timed ones included
    library(torch, a, s)    what people call instead, where torch has it
    sustained               also measured in a row without pauses, where the clock depends on the power drawn
    """

    def __init__(self, name, *, inputs, outputs, reference, shapes, small, dtypes, bytes=None, flops=None, tolerance=None, zeroed=(), restored=(), counters=(), library=None,
                 sustained=False):
        self.name, self.inputs, self.outputs, self.reference = name, inputs, outputs, reference
        self.shapes, self.small, self.dtypes, self.bytes, self.flops = shapes, small, dtypes, bytes, flops
        self.tolerance, self.zeroed, self.restored, self.counters, self.library, self.sustained = tolerance, zeroed, restored, counters, library, sustained
        self.spellings = {}

    def spelling(self, name, configs, fits=lambda s, c: True):
        def add(build):
            self.spellings[name] = Spelling(name, configs, build, fits)
            return build
        return add

    @property
    def unit(self):
        return "TFLOP/s" if self.flops else "GB/s"

    def work(self, shape, element):
        """In units of `unit` when divided by seconds."""
        return self.flops(shape) / 1e12 if self.flops else self.bytes(shape, element) / 1e9


# How far an output of a type may be off, relative to the largest value; float32 products may be tf32.
TOLERANCE = {"fp32": 2e-3, "fp16": 4e-3, "bf16": 2e-2, "fp8e4": 8e-2, "fp8e5": 0.15}
