# softmax along one axis.
import tegula.language as tl
from tegula import jit


@jit
def softmax(x, dim=None, keep_dims=None, ieee_rounding=False):
    # Below level 3.9 the sums keep their dimension only if `keep_dims` says so.
    axis: tl.constexpr = 0 if dim is None else dim
    keeps: tl.constexpr = tl.core._level() >= 39 or (keep_dims is not None and keep_dims)
    e = tl.exp(x - tl.max(x, axis, keep_dims=keeps))
    return tl.fdiv(e, tl.sum(e, axis, keep_dims=keeps), ieee_rounding)
