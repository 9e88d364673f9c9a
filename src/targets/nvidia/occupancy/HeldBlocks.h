// How many blocks of a kernel share a multiprocessor's shared memory when loops read rows again (gpu/loops/HoldRows.h),
// how many CTAs of a cluster share a row (gpu/parts/ShareLoops.h), and the encoding of both as the number of a form
// (support/LaunchForms.h).
#pragma once
#include "abi/Multiprocessor.h"
#include "gpu/loops/PrefetchLoads.h"
#include <bit>
#include <cstdint>
#include <vector>

namespace tegula::nvidia {

constexpr unsigned mostLimited = 6; // the largest limit of blocks per multiprocessor that a form can encode

struct Holding {
  unsigned blocks = 0; // limit per multiprocessor; 0: no limit, or rows are not held
  unsigned ctas = 1;   // that share the iterations of the loops; more than 1 only if blocks are limited
  bool operator==(const Holding &) const = default;
};

/// The part of a row that a loop loads and later loops load again.
struct HeldIterations {
  uint64_t bytes = 0;    // per iteration
  bool isNarrow = false; // some elements have less than 32 bits
  unsigned again = 1;    // number of loops that load it again
  unsigned registers = 0; // per thread, for tiles that are live at once (Pressure::data)
};
/// The choice for rows of `trips` iterations. `programs`: the grid's programs per multiprocessor if all ran at once; 0:
/// unknown.
Holding blocksThatHold(const HeldIterations &iteration, int64_t trips, unsigned warps, uint64_t programs,
                       unsigned mostCtas);

/// Sizes of rows in bytes at which blocksThatHold changes its result, in any order.
std::vector<uint64_t> limitsOfHolding(const HeldIterations &iteration, unsigned mostCtas);

/// A form encodes a requested number of blocks, a limit of blocks (which have sixteen warps; blocks of one or two warps
/// have no such limits), the number of CTAs that share a row, and whether loops load ahead.
struct FormCode {
  static constexpr unsigned warpsOfLimits = 4;
  // limit 0: none; `blocks` does not exceed the limit. With several CTAs, `blocks` equals the limit
  unsigned blocks = 0, limit = 0, ctas = 1;
  bool loadsAhead = false;

  uint8_t pack() const {
    const unsigned code = !limit ? blocks + 1
                          : ctas == 1
                              ? limited + (limit - 1) * (mostLimited + 1) + blocks
                              : shared + (limit - 1) * sizes + (static_cast<unsigned>(std::countr_zero(ctas)) - 1);
    return static_cast<uint8_t>(code | (loadsAhead ? gpu::aheadForm : 0));
  }
  static FormCode of(uint8_t form) {
    FormCode out{.loadsAhead = (form & gpu::aheadForm) != 0};
    const unsigned code = form & ~unsigned{gpu::aheadForm};
    if (code < limited) {
      out.blocks = code - 1;
    } else if (code < shared) {
      out.limit = (code - limited) / (mostLimited + 1) + 1;
      out.blocks = (code - limited) % (mostLimited + 1);
    } else {
      out.blocks = out.limit = (code - shared) / sizes + 1;
      out.ctas = 2u << (code - shared) % sizes;
    }
    return out;
  }

private:
  // the first code with a limit, and the first with several CTAs (2, 4, 8 or 16)
  static constexpr unsigned limited = abi::multiprocessor::mostBlocks + 2,
                            shared = limited + mostLimited * (mostLimited + 1), sizes = 4;
  static_assert(shared + mostLimited * sizes <= gpu::aheadForm);
};

} // namespace tegula::nvidia
