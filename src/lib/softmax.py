# softmax along one axis.
import tegula.language as tl
from tegula import jit


@jit
def softmax(x, dim=None, keep_dims=False, ieee_rounding=False):
    axis: tl.constexpr = 0 if dim is None else dim
    e = tl.exp(x - tl.max(x, axis, keep_dims=keep_dims))
    return tl.fdiv(e, tl.sum(e, axis, keep_dims=keep_dims), ieee_rounding)
