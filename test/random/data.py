"""What buffers hold, by recipe: a deterministic function of (recipe, dtype, size, seed)."""
import numpy as np

from program import FLOATS, FP8, NUMPY, bits

FLOAT_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 448.0, 57344.0, 65504.0, 1e-8, -6e-8, 1e-40, 3e38, np.inf,
               -np.inf, np.nan)
RECIPES = ("zero", "count", "small", "edge", "wide", "index")


def fill(recipe, dtype, size, seed):
    """small: integers of [-8, 8); edge: extreme values among wide ones; wide: all of the type; index: [0, 2**7)."""
    g = np.random.default_rng([seed, size, RECIPES.index(recipe)])
    t = NUMPY[dtype]
    if recipe == "zero":
        return np.zeros(size, t)
    if dtype == "int1":
        return g.integers(0, 2, size).astype(np.bool_)
    if recipe == "count":
        return (np.arange(size) % 64).astype(np.float32).astype(t) if dtype in FLOATS + FP8 else (np.arange(size) %
                                                                                                  128).astype(t)
    if recipe == "index":
        return g.integers(0, 128, size).astype(t)
    if recipe == "small":
        low = 0 if dtype[0] == "u" else -8
        return g.integers(low, 8, size).astype(np.float32).astype(t)
    with np.errstate(all="ignore"):
        if dtype in FLOATS + FP8:
            v = (g.standard_normal(size) * 2.0**g.integers(-6, 12, size)).astype(np.float32)
            if recipe == "edge":
                at = g.permutation(size)[:max(size // 4, 1)]
                v[at] = np.float32(np.resize(FLOAT_EDGES, at.size))
                v[at] = np.roll(v[at], int(g.integers(20)))
            if dtype in FP8:
                v = np.clip(v, -400, 400)
            return v.astype(t)
        info = np.iinfo(t)
        v = g.integers(info.min, info.max, size, dtype=t, endpoint=True)
        half = g.integers(0, 2, size) == 0
        v[half] >>= t.type(int(g.integers(1, bits(dtype))))
        if recipe == "edge":
            at = g.permutation(size)[:max(size // 4, 1)]
            v[at] = np.resize(np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], t), at.size)
        return v
