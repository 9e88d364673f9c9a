# dot_scaled: products of narrow floats with a scale for each group of 16 or 32 elements along K (OCP Microscaling Formats
# specification v1.0, sections 5 and 6). Operands are widened to bfloat16, which holds every e2m1, e4m3 and e5m2 number times
# a power of two exactly, or to float16 beside elements that are fp16: this is what a kernel that widens by hand would do, and
# the loop around it is pipelined like any other.
import tegula.language as tl
from tegula import constexpr_function, jit


@constexpr_function
def _is_scaled_format(name):
    return name == "e2m1" or name == "e4m3" or name == "e5m2" or name == "bf16" or name == "fp16"


@constexpr_function
def _format_dtype(name):
    # What an element is, and the integer that may hold its bits.
    if name == "e4m3":
        return tl.float8e4nv, tl.uint8
    elif name == "e5m2":
        return tl.float8e5, tl.uint8
    elif name == "bf16":
        return tl.bfloat16, tl.uint16
    else:
        return tl.float16, tl.uint16


@constexpr_function
def _wide_type(left, right):
    # What both operands are widened to. fp16 elements would lose three bits in bfloat16.
    return tl.float16 if (left == "fp16" or right == "fp16") and left != "bf16" and right != "bf16" else tl.bfloat16


@constexpr_function
def _last_behind(axis, rank):
    # The permutation of rank + 1 axes that moves the last one behind `axis`.
    return [i for i in range(axis + 1)] + [rank] + [i for i in range(axis + 1, rank)]


@constexpr_function
def _with_length(shape, axis, n):
    return [n if i == axis else shape[i] for i in range(len(shape))]


@jit
def _unpacked_e2m1(x, axis: tl.constexpr):
    # Two elements a byte along `axis`, the one of even index in the low half.
    rank: tl.constexpr = len(x.shape)
    pairs = tl.permute(tl.join(x << 4, x), _last_behind(axis, rank))
    bits = tl.reshape(pairs, _with_length(x.shape, axis, 2 * x.shape[axis])).to(tl.uint16) << 8
    # Sign and the three bits below it, at their places in a bfloat16: the element but for the bias of the exponent.
    bits = (bits & 0x8000) | ((bits >> 6) & 0x01C0)
    return bits.to(tl.bfloat16, bitcast=True) * tl.full([1], 2.0**126, tl.bfloat16)


@jit
def _scaled_elements(x, name: tl.constexpr, axis: tl.constexpr):
    # The elements of an operand; `axis` is the one along which e2m1 is packed.
    if name == "e2m1":
        tl.static_assert(x.dtype == tl.uint8, f"dot_scaled: e2m1 elements come in pairs as uint8, not as {x.dtype}")
        return _unpacked_e2m1(x, axis)
    else:
        float_type: tl.constexpr = _format_dtype(name)[0]
        bits_type: tl.constexpr = _format_dtype(name)[1]
        tl.static_assert(x.dtype == float_type or x.dtype == bits_type,
                         f"dot_scaled: elements of format {name} come as {float_type} or {bits_type}, not as {x.dtype}")
        return x.to(float_type, bitcast=True)


@jit
def _scale_values(scale, fast_math: tl.constexpr):
    if scale.dtype == tl.uint8:
        # e8m0: the exponent of a power of two, 2**-127 to 2**127; 255 is NaN.
        power = scale.to(tl.uint16)
        bits = tl.where(power == 0, 0x0040, power << 7)
        if not fast_math:
            bits = tl.where(power == 255, 0x7FC0, bits)
        return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return scale.to(tl.bfloat16)


@jit
def _scale_bits(scale):
    # e8m0 comes as bytes of either sign.
    if scale is None:
        return None
    elif scale.dtype == tl.int8:
        return scale.to(tl.uint8, bitcast=True)
    else:
        return scale


@jit
def _group_size(scale, k: tl.constexpr):
    # Elements for each scale.
    if scale is None:
        return 0
    else:
        tl.static_assert(scale.dtype == tl.uint8 or scale.dtype == tl.float8e4nv,
                         f"dot_scaled: scales are uint8 or int8 (e8m0) or float8e4nv, not {scale.dtype}")
        group: tl.constexpr = k // scale.shape[-1]
        tl.static_assert(group * scale.shape[-1] == k and (group == 16 or group == 32),
                         f"dot_scaled: scale factor must be 16 or 32. Got {group}")
        tl.static_assert(scale.dtype == tl.uint8 or group == 16, "dot_scaled: float8e4nv scales are of groups of 16")
        return group


@jit
def _times_scale(x, scale, group: tl.constexpr, fast_math: tl.constexpr, wide: tl.constexpr):
    # x[..., rows, K] with a scale for each `group` elements of a row, widened.
    if scale is None:
        return x.to(wide)
    else:
        rank: tl.constexpr = len(x.shape)
        tl.static_assert(scale.shape == _with_length(x.shape, rank - 1, x.shape[-1] // group),
                         f"dot_scaled: scales of shape {scale.shape} do not fit elements of shape {x.shape}")
        groups = tl.expand_dims(_scale_values(scale, fast_math), rank)
        # float16 holds products whose scale it does not hold: they are rounded once, from float32.
        between: tl.constexpr = tl.float32 if wide == tl.float16 else wide
        return (x.to(between) * tl.reshape(tl.broadcast_to(groups, scale.shape + [group]), x.shape).to(between)).to(wide)


@jit
def dot_scaled(lhs, lhs_scale, lhs_format: tl.constexpr, rhs, rhs_scale, rhs_format: tl.constexpr, acc=None,
               fast_math: tl.constexpr = False, lhs_k_pack: tl.constexpr = True, rhs_k_pack: tl.constexpr = True,
               out_dtype: tl.constexpr = tl.float32):
    rank: tl.constexpr = len(lhs.shape)
    tl.static_assert(_is_scaled_format(lhs_format), f"NYI: lhs_format {lhs_format}")
    tl.static_assert(_is_scaled_format(rhs_format), f"NYI: rhs_format {rhs_format}")
    tl.static_assert((rank == 2 or rank == 3) and len(rhs.shape) == rank,
                     f"dot_scaled: operands have two or three dimensions, not the shapes {lhs.shape} and {rhs.shape}")
    tl.static_assert(lhs_k_pack or lhs_format == "e2m1", "dot_scaled: only e2m1 is packed along another axis than K")
    tl.static_assert(rhs_k_pack or rhs_format == "e2m1", "dot_scaled: only e2m1 is packed along another axis than K")
    tl.static_assert(out_dtype == tl.float32, "dot_scaled: out_dtype must be float32")
    lhs_scale = _scale_bits(lhs_scale)
    rhs_scale = _scale_bits(rhs_scale)
    rows: tl.constexpr = rank - 1 if lhs_k_pack else rank - 2
    columns: tl.constexpr = rank - 2 if rhs_k_pack else rank - 1
    x = _scaled_elements(lhs, lhs_format, rows)
    left: tl.constexpr = _group_size(lhs_scale, x.shape[-1])
    wide: tl.constexpr = _wide_type(lhs_format, rhs_format)
    # One operand is done before the other begins: fewer values live at once.
    x = _times_scale(x, lhs_scale, left, fast_math, wide)
    y = _scaled_elements(rhs, rhs_format, columns)
    right: tl.constexpr = _group_size(rhs_scale, y.shape[-2])
    tl.static_assert(left == right or left == 0 or right == 0,
                     f"Operands must have the same scale factor; (lhs: {left} vs rhs: {right})")
    if rhs_scale is None:
        y = y.to(wide)
    else:
        # The scales of the right operand are those of its columns.
        back: tl.constexpr = [0, 1, 2][:rank - 2] + [rank - 1, rank - 2]
        y = tl.permute(_times_scale(tl.permute(y, back), rhs_scale, right, fast_math, wide), back)
    return tl.dot(x, y, acc, out_dtype=out_dtype)
