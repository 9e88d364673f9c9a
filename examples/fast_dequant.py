"""Unpacking 4-bit weights with inline assembly: two instructions turn a pair of nibbles into two bfloat16.

    python fast_dequant.py

A word of 32 bits holds eight weights. `lop3` puts two nibbles into the low bits of two bfloat16 numbers 128.0, whose last place counts 1, and `fma`
takes the 128 (and the 8 that makes the nibbles signed) off again. The text is PTX; on a CPU and on the simulator the same kernel runs, as ordinary
operations.
"""
import ml_dtypes
import numpy as np
import tegula
import tegula.language as tl


@tegula.jit
def unpack_kernel(words, scales, out, GROUP: tl.constexpr):
    group = tl.program_id(0)
    w = tl.load(words + group * (GROUP // 8) + tl.arange(0, GROUP // 8))
    # Four registers, each with two of the eight weights: 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    pairs = tl.inline_asm_elementwise(
        """
        {
            .reg .b32 t<4>, one, less;
            shr.u32 t1, $4, 4;
            shr.u32 t2, $4, 8;
            shr.u32 t3, $4, 12;
            lop3.b32 t0, $4, 0x000F000F, 0x43004300, 0xEA;
            lop3.b32 t1, t1, 0x000F000F, 0x43004300, 0xEA;
            lop3.b32 t2, t2, 0x000F000F, 0x43004300, 0xEA;
            lop3.b32 t3, t3, 0x000F000F, 0x43004300, 0xEA;
            mov.b32 one, 0x3F803F80;
            mov.b32 less, 0xC308C308;
            fma.rn.bf16x2 $0, t0, one, less;
            fma.rn.bf16x2 $1, t1, one, less;
            fma.rn.bf16x2 $2, t2, one, less;
            fma.rn.bf16x2 $3, t3, one, less;
        }
        """, "=r,=r,=r,=r,r", [w], (tl.int32, tl.int32, tl.int32, tl.int32), is_pure=True, pack=1)
    scale = tl.load(scales + group)
    at = out + group * GROUP + tl.arange(0, GROUP // 8) * 8
    for k in tl.static_range(4):
        low = pairs[k].to(tl.int16).to(tl.bfloat16, bitcast=True)
        high = (pairs[k] >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
        tl.store(at + k, low * scale)
        tl.store(at + 4 + k, high * scale)


def unpack(words, scales, group=128):
    out = np.empty(words.size * 8, ml_dtypes.bfloat16)
    unpack_kernel[(scales.size,)](words, scales, out, GROUP=group)
    return out


def reference(words, scales, group=128):
    nibbles = (words[:, None] >> (4 * np.arange(8))) & 15
    w = (nibbles.astype(np.float32) - 8).reshape(-1, group)
    return (w * scales.astype(np.float32)[:, None]).astype(ml_dtypes.bfloat16).ravel()


def main(n=4096):
    rng = np.random.default_rng(0)
    words = rng.integers(-2**31, 2**31, n // 8, dtype=np.int32)
    scales = rng.uniform(0.5, 2, n // 128).astype(ml_dtypes.bfloat16)
    out = unpack(words, scales)
    assert np.array_equal(out.view(np.uint16), reference(words, scales).view(np.uint16))
    print(f"{n} weights of 4 bits, from {out.min()} to {out.max()}, are what numpy makes of them")


if __name__ == "__main__":
    main()
