# Waiting for memory.
import tegula.language as tl
from tegula import jit


@jit
def _atomic_poll(pointer, expected, timeout, sem: tl.constexpr, scope: tl.constexpr):
    # An element that has been seen stays seen, whatever is written after it; each one is read at least once.
    if timeout is not None:
        begin = tl.extra.cuda.globaltimer()
    seen = tl.atomic_load(pointer, sem=sem, scope=scope) == expected
    if timeout is None:
        while tl.reduce_or(~seen, None):
            seen = seen | (tl.atomic_load(pointer, ~seen, sem, scope) == expected)
    else:
        while tl.reduce_or(~seen, None) & ((tl.extra.cuda.globaltimer() - begin).to(timeout.dtype) < timeout):
            seen = seen | (tl.atomic_load(pointer, ~seen, sem, scope) == expected)
    return seen
