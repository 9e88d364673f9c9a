# RUN: compile %s::k --sig 'x:*f32' -c 'MODE="fast"' --emit tile
import triton
import triton.language as tl


@triton.jit
def k(x, MODE: tl.constexpr):
    if MODE:
        tl.store(x, 1.0)
    tl.static_assert(MODE == "slow", f"mode {MODE} is unknown")
