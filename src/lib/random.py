# Counter-based random numbers: Philox-4x32-10 and its 64-bit variant (Salmon et al., "Parallel random numbers: as easy
# as 1, 2, 3", SC 2011). A value depends on (seed, offset) alone, so any division of the work among programs gives the
# same numbers.
import tegula.language as tl
from tegula import jit


@jit
def philox_impl(c0, c1, c2, c3, k0, k1, n_rounds: tl.constexpr = 10):
    wide: tl.constexpr = c0.dtype == tl.uint64
    tl.static_assert(wide or c0.dtype == tl.uint32, "Philox counters are uint32 or uint64")
    multiplier_0: tl.constexpr = 0xD2E7470EE14C6C93 if wide else 0xD2511F53
    multiplier_1: tl.constexpr = 0xCA5A826395121157 if wide else 0xCD9E8D57
    weyl_0: tl.constexpr = 0x9E3779B97F4A7C15 if wide else 0x9E3779B9
    weyl_1: tl.constexpr = 0xBB67AE8584CAA73B if wide else 0xBB67AE85
    for _ in tl.static_range(n_rounds):
        high_0 = tl.umulhi(multiplier_0, c0)
        high_1 = tl.umulhi(multiplier_1, c2)
        low_0 = tl.mul(c0, multiplier_0, sanitize_overflow=False)
        low_1 = tl.mul(c2, multiplier_1, sanitize_overflow=False)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0 = tl.add(k0, weyl_0, sanitize_overflow=False)
        k1 = tl.add(k1, weyl_1, sanitize_overflow=False)
    return c0, c1, c2, c3


@jit
def philox(seed, c0, c1, c2, c3, n_rounds: tl.constexpr = 10):
    key = tl.to_tensor(seed)
    tl.static_assert(key.dtype.is_int(), "the seed must be an integer")
    key = key.to(tl.uint64)
    first = tl.to_tensor(c0)
    if first.dtype.primitive_bitwidth == 64:
        return philox_impl(first.to(tl.uint64), tl.to_tensor(c1).to(tl.uint64), tl.to_tensor(c2).to(tl.uint64),
                           tl.to_tensor(c3).to(tl.uint64), key, tl.zeros_like(key), n_rounds)
    else:
        return philox_impl(first.to(tl.uint32), tl.to_tensor(c1).to(tl.uint32), tl.to_tensor(c2).to(tl.uint32),
                           tl.to_tensor(c3).to(tl.uint32), key.to(tl.uint32), (key >> 32).to(tl.uint32), n_rounds)


@jit
def randint4x(seed, offset, n_rounds: tl.constexpr = 10):
    position = tl.to_tensor(offset)
    low = position.to(tl.uint32)
    zero = tl.zeros_like(low)
    if position.dtype.primitive_bitwidth > 32:
        return philox(seed, low, (position >> 32).to(tl.uint32), zero, zero, n_rounds)
    else:
        return philox(seed, low, zero, zero, zero, n_rounds)


@jit
def randint(seed, offset, n_rounds: tl.constexpr = 10):
    return randint4x(seed, offset, n_rounds)[0]


@jit
def uint_to_uniform_float(x):
    # The magnitude of the signed word (-x-1 below zero, which is ~x) times a little less than 2**-31 or 2**-63: in [0,
    # 1).
    if x.dtype.primitive_bitwidth == 64:
        word = x.to(tl.int64, bitcast=True)
        return tl.where(word < 0, ~word, word).to(tl.float32) * 1.0842020432385337e-19
    else:
        tl.static_assert(x.dtype.primitive_bitwidth == 32, "uniform numbers are made of 32-bit or 64-bit words")
        word = x.to(tl.int32, bitcast=True)
        return tl.where(word < 0, ~word, word).to(tl.float32) * 4.6566127342e-10


@jit
def rand(seed, offset, n_rounds: tl.constexpr = 10):
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@jit
def rand4x(seed, offsets, n_rounds: tl.constexpr = 10):
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return uint_to_uniform_float(a), uint_to_uniform_float(b), uint_to_uniform_float(c), uint_to_uniform_float(d)


@jit
def pair_uniform_to_normal(u1, u2):
    # Box and Muller; u1 is kept away from the pole of the logarithm.
    radius = tl.sqrt(-2.0 * tl.log(tl.maximum(u1, 1.0e-7)))
    angle = 6.283185307179586 * u2
    return radius * tl.cos(angle), radius * tl.sin(angle)


@jit
def randn(seed, offset, n_rounds: tl.constexpr = 10):
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))[0]


@jit
def randn4x(seed, offset, n_rounds: tl.constexpr = 10):
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(u1, u2)
    n3, n4 = pair_uniform_to_normal(u3, u4)
    return n1, n2, n3, n4
