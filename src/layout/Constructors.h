// The layouts that GPU code uses, as constructors of LinearLayout. None of them is a class of its own.
//
// All take the tile of one CTA and give a layout with the inputs register, lane, warp (in this order, sizes 1 included)
// and the outputs dim(r-1) ... dim0; overBlocks() then spreads a tensor over the CTAs of a cluster. The tile may be
// smaller than the pattern (threads then hold copies: zero bases) or larger (the pattern repeats in registers).
// Fragment tables are those of the hardware as measured; unittests/layout/ConstructorsTest.cpp holds them as golden
// bases.
//
// Registers count elements, not 32-bit registers: for elements narrower than 32 bits the lowest register bits are the
// position inside the hardware register.
#pragma once
#include "layout/LinearLayout.h"

namespace tegula::layout {

// ---- Threads over a tensor ----------------------------------------------------------------------------------------

/// The threads of a program; both numbers are powers of two.
struct Threads {
  unsigned lanes, warps; // lanes: of a warp
  unsigned count() const { return lanes * warps; }
};

/// Distributes elements along `order` (fastest axis first): `vec` consecutive elements to the registers of a thread,
/// then one step per lane, then per warp, then the rest to registers. Lanes and warps beyond the elements hold copies,
/// registers never do. With the axis of contiguous addresses first this is the layout of coalesced loads and stores.
LinearLayout dealt(const Extents &shape, const Extents &order, int64_t vec, Threads threads);
/// For a tile that is read along one axis (order[0]) and written to shared memory along another (order[1]): a thread
/// has blocks of `vec` by `run` elements, which it transposes by renaming registers, and eight consecutive lanes write
/// their runs of 16 bytes to different banks of a tile in the 128-byte swizzle (sharedSwizzled). A lane's neighbours
/// along order[0] fill lines of memory.
LinearLayout dealtInBlocks(const Extents &shape, const Extents &order, int64_t vec, int64_t run, Threads threads);
/// The same for bytes, which move between threads during the transposition: ldmatrix.trans brings pairs along order[0]
/// of two neighbours along order[1] (PTX ISA: it transposes units of 16 bits), and four neighbours along order[1] then
/// are one word of what stmatrix writes. The tile has at least 16 elements along each axis.
LinearLayout dealtForTurns(const Extents &shape, const Extents &order, Threads threads);
/// For a tile whose elements are loaded one by one, neighbours along order[0] by neighbours in a warp, and written
/// along order[1] in runs of `run` elements. Warps span order[1] before order[0], so that a thread, which holds the
/// offsets of its lines, has about the same number of lines along both axes (4 + 8 of 128 x 32 by four warps, where
/// dealt() has 1 + 32).
LinearLayout dealtAcross(const Extents &shape, const Extents &order, int64_t run, Threads threads);
/// Row-major, several neighbours per thread if there are enough elements: the default layout.
LinearLayout dealtByRows(const Extents &shape, Threads threads);
/// For a scan along `axis`: each thread holds consecutive elements of the axis, the next ones are in the next lane,
/// then in the next warp; the remaining lanes and warps cover the other axes. The register bits of the axis are the
/// lowest.
LinearLayout dealtAlong(const Extents &shape, unsigned axis, Threads threads);
/// The layout of a scalar: replicated in every thread.
LinearLayout scalar(Threads threads);
/// `l` with the warp bases of `other`, by exchanging bases of warps and registers: values then move from `other` to it
/// within their warp. The lowest `kept` register bits and all lanes stay; returns `l` unchanged if that is impossible.
LinearLayout withWarpsOf(const LinearLayout &l, const LinearLayout &other, unsigned kept);
/// The tile of a CTA repeated over the CTAs of a cluster: `split` CTAs along each axis, along order[0] first; `copies`
/// (a power of two) CTAs hold the same part. Input block is added.
LinearLayout overBlocks(const LinearLayout &perCta, const Extents &split, const Extents &order, unsigned copies = 1);

// ---- Shape operations ---------------------------------------------------------------------------------------------
// View operations: no data moves, so the result's layout follows from the operand's. They also accept tiles in shared
// memory (input offset). Registers whose basis becomes zero are dropped; the others keep their order.

/// Drops an axis, as a reduction along it or the inverse of expandDims does: threads that differed only along the axis
/// hold copies.
LinearLayout slice(const LinearLayout &parent, unsigned axis);
/// New axis of size 1. Register r is register r.
LinearLayout expandDims(const LinearLayout &operand, unsigned axis);
/// The part of the tensor with coordinates below `shape`, whose extents are no larger: the operand of a broadcast, or
/// of a concatenation.
LinearLayout cut(const LinearLayout &operand, const Extents &shape);
/// Axis i of the result is axis perm[i] of the operand. Register r is register r.
LinearLayout permute(const LinearLayout &operand, const Extents &perm);
/// Same elements in row-major order. Register r is register r.
LinearLayout reshape(const LinearLayout &operand, const Extents &shape);
/// New last axis of size 2: both halves of a pair in one thread. Registers 2r and 2r + 1 hold element r of the
/// operands.
LinearLayout join(const LinearLayout &operand);
/// The same, but where threads hold copies of the operand, a thread bit selects the half of the pair that a thread
/// holds.
LinearLayout joinOverThreads(const LinearLayout &operand);
/// Repeats every element `times` times (a power of two), adjacent along `axis`: a thread has all copies of its
/// elements, in its lowest registers; where threads hold copies of the operand, each has a part of these.
LinearLayout repeat(const LinearLayout &operand, unsigned axis, int64_t times);
/// For a tensor whose last axis has size 2: `operand` if one thread holds each pair, else a layout derived from it in
/// which one thread does: two threads swap half of their registers; with one register each, both hold the pair. slice()
/// along the last axis is the layout of both halves.
LinearLayout splittable(const LinearLayout &operand);
/// Twice the extent along an axis, the second half in further registers.
LinearLayout concatenate(const LinearLayout &operand, unsigned axis);
/// A new first axis of size n, along which a thread holds all elements, in further registers.
LinearLayout gather(const LinearLayout &operand, int64_t n);

// ---- Matrix instructions ------------------------------------------------------------------------------------------

/// Warps over the result of a matrix product: m varies fastest in the warp number, then n, then batch.
struct WarpGrid {
  unsigned m = 1, n = 1, batch = 1;
};

/// Accumulator of mma.sync m16n8 and (with grid.m a multiple of 4) of wgmma m64nN: shape {m, n} or {batch, m, n}. Each
/// warp owns adjacent rows and columns. Registers: column 1, row 8, columns 8, 16, ... , then rows 16 (wgmma: 64), ...;
/// so the registers of one wgmma, whatever its N, are consecutive.
LinearLayout mmaAccumulator(const Extents &shape, WarpGrid grid);
LinearLayout wgmmaAccumulator(const Extents &shape, WarpGrid grid);

/// Operand A {m, k} of mma.sync, elements of 8, 16, 32 (tf32) or 64 bits. Registers: k inside a 32-bit register, row 8,
/// the further k, then rows; the fragment of one instruction is consecutive. kWidth > 32 / elemBits: a thread holds
/// kWidth consecutive k (wide loads; used when the operand is unpacked from narrower elements); A and B must agree, the
/// instruction then sees a permuted contraction index. k must be at least 16 bytes (64-bit elements: 32): where it is
/// smaller, lanes hold copies, which the product would count again.
LinearLayout mmaOperandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth = 0);
/// Operand B {k, n}. Registers: k inside a 32-bit register, the further k, then columns.
LinearLayout mmaOperandB(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth = 0);
/// Operand A of wgmma from registers. Same fragment; rows are spread as in wgmmaAccumulator.
LinearLayout wgmmaOperandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth = 0);
/// Accumulator [(B,)M,N] of a dot that is computed by multiply-adds: about square tiles of registers and of lanes.
LinearLayout fmaAccumulator(const Extents &shape, Threads threads);
/// The operand of such a dot: every thread holds the whole contraction axis (operand 0: {m, k}, 1: {k, n}) for its rows
/// or columns of the result. Registers: k last.
LinearLayout fmaOperand(const LinearLayout &result, unsigned operand, int64_t k);

/// What one ldmatrix / stmatrix of `count` 8x8 matrices of 16 bits moves: register (16-bit halves: half, then matrix),
/// lane -> (dim0 matrix, dim1 row, dim2 column). Lane 8i + j supplies the address of row j of matrix i.
LinearLayout matrixMove(unsigned count, bool transposed);

// ---- Shared memory: offset (in elements) -> coordinates -----------------------------------------------------------

/// Dense, `order` fastest first. With `order` from the last axis down: row-major. TMA without swizzle writes this.
LinearLayout sharedLinear(const Extents &shape, const Extents &order);
/// The elements of each thread of a layout are contiguous.
LinearLayout sharedByThreads(const LinearLayout &registers);
/// Rows of 128 bytes along `axis` of a tile of two axes, as a copy delivers lines of memory. Their pieces of `vec`
/// elements are swizzled so that the lanes of `registers` in one phase of an access (eight of 16 bytes) use different
/// banks. An asynchronous copy writes a line at a time, whichever lanes issued it: pieces in the order of lanes took
/// 746 us where these rows took 643 (H200, TF32, 4096^3).
LinearLayout sharedRows(const LinearLayout &registers, unsigned axis, int64_t vec, unsigned elemBits);
/// The same for other accesses: `together` has the three steps between the eight pieces of one phase.
LinearLayout sharedRows(const Extents &shape, std::span<const uint64_t> together, unsigned axis, int64_t vec,
                        unsigned elemBits);

/// Bytes per row of an atom in the wgmma and TMA swizzle modes. None: wgmma core matrices of 16-byte rows.
enum class SwizzleMode : uint8_t { None = 16, B32 = 32, B64 = 64, B128 = 128 };
/// The widest mode whose atom is not wider than the contiguous axis. Tiles narrower than 16 bytes have none.
std::optional<SwizzleMode> widestSwizzle(int64_t contiguousBytes);
/// A tile as wgmma reads it and TMA boxes of one atom width each write it. order[0] is the contiguous axis (K for a
/// K-major operand, M or N for an MN-major one), order[1] the rows of an atom, further axes lie outside. Elements are
/// placed at
///   lin = row * W + byte % W + (byte / W) * W * rows,   address = lin ^ (((lin >> 7) & mask) << 4),
/// where mask = 0/1/3/7 for W = 16/32/64/128. Descriptor strides: 8 rows apart 8 * W bytes; W bytes along the
/// contiguous axis apart W * rows bytes. The tile must start at a multiple of 1024 bytes and be at least W bytes wide.
LinearLayout sharedSwizzled(const Extents &shape, const Extents &order, unsigned elemBits, SwizzleMode mode);

} // namespace tegula::layout
