// The layouts that GPU code uses, as constructors of LinearLayout. None of them is a class of its own.
//
// All take the tile of one CTA and give a layout with the inputs register, lane, warp (in this order, sizes 1 included) and the
// outputs dim(r-1) ... dim0; overBlocks() then spreads a tensor over the CTAs of a cluster. The tile may be smaller than the
// pattern (threads then hold copies: zero bases) or larger (the pattern repeats in registers). Fragment tables are those
// of the hardware as measured; unittests/layout/ConstructorsTest.cpp holds them as golden bases.
//
// Registers count elements, not 32-bit registers: for elements narrower than 32 bits the lowest register bits are the
// position inside the hardware register.
#pragma once
#include "layout/LinearLayout.h"

namespace tegula::layout {

// ---- Threads over a tensor -------------------------------------------------------------------------------------------

/// Makes a pattern cover exactly `shape`: coordinates beyond the shape are cut off (their bases lose that part, so threads
/// hold copies), and missing ones are covered by further registers, along order[0] first.
LinearLayout fit(const LinearLayout &pattern, const Extents &shape, const Extents &order);

/// Each thread holds a box of sizePerThread, lanes and then warps tile it, `order` lists the axes fastest first. Registers that
/// would be mere copies (sizePerThread beyond the shape) are dropped.
LinearLayout blocked(const Extents &shape, const Extents &sizePerThread, const Extents &threadsPerWarp,
                     const Extents &warpsPerCta, const Extents &order);
/// blocked() for a number of warps: `vector` elements per thread along order[0], lanes and warps spread along order[0] first, then
/// the next axes. The layout of coalesced loads and stores.
LinearLayout blockedFor(const Extents &shape, unsigned vector, unsigned numWarps, const Extents &order);
/// The tile of a CTA repeated over the CTAs of a cluster: `split` CTAs along each axis, along order[0] first; `copies` (a power
/// of two) CTAs hold the same part. Input block is added.
LinearLayout overBlocks(const LinearLayout &perCta, const Extents &split, const Extents &order, unsigned copies = 1);

// ---- Shape operations: no data moves, so the result's layout follows from the operand's ------------------------------------
// Each states which register of the operand is register r of the result.

/// Axis dropped, as by a reduction along it or by the inverse of expandDims: threads that differed only along the axis
/// hold copies. Registers that become copies are dropped; the kept ones keep their order.
LinearLayout slice(const LinearLayout &parent, unsigned axis);
/// New axis of size 1. Register r is register r.
LinearLayout expandDims(const LinearLayout &operand, unsigned axis);
/// Axes of size 1 become those of `shape`. Every place already holds the value, so any thread may take any part of the new
/// extent: lanes, then warps, that hold mere copies take it (inner axes first), further registers the rest (the high
/// bits). With useCopies = false only registers do. Register r is register r mod (registers of the operand).
LinearLayout broadcast(const LinearLayout &operand, const Extents &shape, bool useCopies = true);
/// True if `result`, a layout of the broadcast tensor, can be filled without any exchange between threads: every thread
/// already has the values. `map`, if not null, receives for each register of the result the operand's register.
bool isBroadcastOf(const LinearLayout &result, const LinearLayout &operand, std::vector<unsigned> *map = nullptr);
/// Axis i of the result is axis perm[i] of the operand. Register r is register r.
LinearLayout permute(const LinearLayout &operand, const Extents &perm);
/// Same elements in row-major order. Register r is register r.
LinearLayout reshape(const LinearLayout &operand, const Extents &shape);
/// New last axis of size 2. Register r is register r / 2 of operand r % 2.
LinearLayout join(const LinearLayout &operand);
struct SplitResult {
  LinearLayout layout;
  unsigned registerBit; // this bit of the operand's register number selects the result; without it, the rest numbers it
};
/// Last axis of size 2 dropped. Nothing if the two halves of a pair are not in two registers of one thread (convert first).
std::optional<SplitResult> split(const LinearLayout &operand);

// ---- Matrix instructions -----------------------------------------------------------------------------------------------

/// Warps over the result of a matrix product: m varies fastest in the warp number, then n, then batch.
struct WarpGrid {
  unsigned m = 1, n = 1, batch = 1;
};

/// Accumulator of mma.sync m16n8 and (with grid.m a multiple of 4) of wgmma m64nN: shape {m, n} or {batch, m, n}. Each warp owns
/// adjacent rows and columns. Registers: column 1, row 8, columns 8, 16, ... , then rows 16 (wgmma: 64), ...; so the
/// registers of one wgmma, whatever its N, are consecutive.
LinearLayout mmaAccumulator(const Extents &shape, WarpGrid grid);
LinearLayout wgmmaAccumulator(const Extents &shape, WarpGrid grid);

/// Operand A {m, k} of mma.sync, elements of 8, 16, 32 (tf32) or 64 bits. Registers: k inside a 32-bit register, row 8, the
/// further k, then rows; the fragment of one instruction is consecutive. kWidth > 32 / elemBits: a thread holds kWidth
/// consecutive k (wide loads; used when the operand is unpacked from narrower elements); A and B must agree, the
/// instruction then sees a permuted contraction index. k must be at least 16 bytes (64-bit elements: 32): where it is
/// smaller, lanes hold copies, which the product would count again.
LinearLayout mmaOperandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth = 0);
/// Operand B {k, n}. Registers: k inside a 32-bit register, the further k, then columns.
LinearLayout mmaOperandB(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth = 0);
/// Operand A of wgmma from registers. Same fragment; rows are spread as in wgmmaAccumulator.
LinearLayout wgmmaOperandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth = 0);
/// Operand of a dot that is computed by FMA: every thread has the whole contraction (operand 0: {m, k}, 1: {k, n}) for its
/// rows or columns of the result. Registers: k first.
LinearLayout fmaOperand(const LinearLayout &result, unsigned operand, int64_t k);

/// What one ldmatrix / stmatrix of `count` 8x8 matrices of 16 bits moves: register (16-bit halves: half, then matrix), lane ->
/// (dim0 matrix, dim1 row, dim2 column). Lane 8i + j supplies the address of row j of matrix i.
LinearLayout matrixMove(unsigned count, bool transposed);

// ---- Shared memory: offset (in elements) -> coordinates --------------------------------------------------------------------

/// Dense, `order` fastest first. With `order` from the last axis down: row-major. TMA without swizzle writes this.
LinearLayout sharedLinear(const Extents &shape, const Extents &order);

/// Bytes per row of an atom in the wgmma and TMA swizzle modes. None: wgmma core matrices of 16-byte rows.
enum class SwizzleMode : uint8_t { None = 16, B32 = 32, B64 = 64, B128 = 128 };
/// The widest mode whose atom is not wider than the contiguous axis. Narrower tiles than 16 bytes have none.
std::optional<SwizzleMode> widestSwizzle(int64_t contiguousBytes);
/// A tile as wgmma reads it and TMA boxes of one atom width each write it. order[0] is the contiguous axis (K for a K-major
/// operand, M or N for an MN-major one), order[1] the rows of an atom, further axes lie outside. Elements are placed at
///   lin = row * W + byte % W + (byte / W) * W * rows,   address = lin ^ (((lin >> 7) & mask) << 4),
/// where mask = 0/1/3/7 for W = 16/32/64/128. Descriptor strides: 8 rows apart 8 * W bytes; W bytes along the contiguous
/// axis apart W * rows bytes. The tile must start at a multiple of 1024 bytes and be at least W bytes wide.
LinearLayout sharedSwizzled(const Extents &shape, const Extents &order, unsigned elemBits, SwizzleMode mode);

} // namespace tegula::layout
