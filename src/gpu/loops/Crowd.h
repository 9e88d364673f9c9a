// Which grids run sooner where code for many programs lets more blocks share a multiprocessor than code for few.
//
// Programs that take equally long run in rounds. 512 of them on 132 multiprocessors take two rounds by two blocks on
// each, and two by three as well, where the second round is nearly empty (H200, 64 rows of bf16 by 16x32x256: 86 us and
// 109). So a block more is worth it where it saves a round: beyond a number of programs everywhere.
#pragma once
#include <cstdint>
#include <vector>

namespace tegula::gpu {

struct Crowd {
  uint32_t few = 0, many = 0; // blocks on a multiprocessor of either code: few < many < 2^16

  /// As Options::askedCrowd, and of that; 0 is none.
  uint32_t asked() const { return many << 16 | few; }
  static Crowd of(uint32_t asked) { return {asked & 0xffff, asked >> 16}; }

  /// Does the code for many take fewer rounds? `programs` as Options::crowd: on a multiprocessor, in sixteenths.
  bool gains(uint32_t programs) const { return rounds(programs, many) < rounds(programs, few); }

  /// Numbers of programs, in sixteenths, ascending: above an odd number of them the code for many gains, above an even
  /// number it does not.
  std::vector<int64_t> limits() const {
    std::vector<int64_t> out;
    const uint32_t end = few * ((many - 1) / (many - few)); // above it does
    for (uint32_t n = few; n <= end; ++n)
      if (gains(16 * n + 1) == (out.size() % 2 == 0))
        out.push_back(16 * int64_t{n});
    return out;
  }

private:
  static uint64_t rounds(uint32_t programs, uint32_t blocks) {
    return (uint64_t{programs} + 16 * uint64_t{blocks} - 1) / (16 * uint64_t{blocks});
  }
};

} // namespace tegula::gpu
