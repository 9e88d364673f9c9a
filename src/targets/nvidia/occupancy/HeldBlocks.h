// How many blocks of a kernel share a multiprocessor's memory where loops read rows again (gpu/loops/HoldRows.h), and
// how many CTAs of a cluster share a row (gpu/parts/ShareLoops.h); and the numbers of forms that say so
// (support/LaunchForms.h).
#pragma once
#include "abi/Multiprocessor.h"
#include "gpu/loops/PrefetchLoads.h"
#include <bit>
#include <cstdint>
#include <vector>

namespace tegula::nvidia {

constexpr unsigned mostLimited = 6; // blocks, of a limit

struct Holding {
  unsigned blocks = 0; // on a multiprocessor at most; 0: any number, or rows are not held
  unsigned ctas = 1;   // that share the iterations of the loops; several only where blocks are limited
  bool operator==(const Holding &) const = default;
};

/// What a loop's iterations load of a row, and later loops again.
struct HeldIterations {
  uint64_t bytes = 0;    // of one
  bool isNarrow = false; // some elements have less than 32 bits
  unsigned again = 1;    // loops that load it again
  unsigned registers = 0; // of a thread for tiles that are alive at once (Pressure::data)
};
/// For rows of that many iterations. `programs`: of the grid on a multiprocessor if all ran at once; 0: not known.
Holding blocksThatHold(const HeldIterations &iteration, int64_t trips, unsigned warps, uint64_t programs,
                       unsigned mostCtas);

/// Bytes of rows at which that changes, in any order.
std::vector<uint64_t> limitsOfHolding(const HeldIterations &iteration, unsigned mostCtas);

/// A form is a number of blocks asked for, one of blocks at most, which have sixteen warps (of one or two warps there
/// are no such limits), CTAs that share a row, and whether loops load ahead.
struct FormCode {
  static constexpr unsigned warpsOfLimits = 4;
  // limit 0: none; blocks are no more than that. Several CTAs ask for as many blocks as the limit
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
  // the first code of a limit, and of several CTAs, of which there are 2, 4, 8 or 16
  static constexpr unsigned limited = abi::multiprocessor::mostBlocks + 2,
                            shared = limited + mostLimited * (mostLimited + 1), sizes = 4;
  static_assert(shared + mostLimited * sizes <= gpu::aheadForm);
};

} // namespace tegula::nvidia
