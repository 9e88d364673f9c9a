// Selects between two codes of a kernel by the size of the grid: one for few programs, and one for many, with which
// more blocks share a multiprocessor.
//
// Programs that take equally long run in rounds. 512 of them on 132 multiprocessors take two rounds with two blocks on
// each, and also two with three blocks, where the second round is nearly empty (H200, 64 rows of bf16 by 16x32x256:
// 86 us and 109). So one more block pays where it saves a round: always, above some number of programs.
#pragma once
#include <cstdint>
#include <vector>

namespace tegula::gpu {

struct Crowd {
  uint32_t few = 0, many = 0; // blocks on a multiprocessor with each code: few < many < 2^16

  /// The pair encoded as Options::askedCrowd, and decoded from it; 0 is none.
  uint32_t asked() const { return many << 16 | few; }
  static Crowd of(uint32_t asked) { return {asked & 0xffff, asked >> 16}; }

  /// Does the code for many take fewer rounds? `programs` as Options::crowd: per multiprocessor, in sixteenths.
  bool gains(uint32_t programs) const { return rounds(programs, many) < rounds(programs, few); }

  /// Limits in programs per multiprocessor, in sixteenths, ascending. The code for many gains where the number of
  /// programs exceeds an odd number of the limits, and does not where it exceeds an even number.
  std::vector<int64_t> limits() const {
    std::vector<int64_t> out;
    const uint32_t end = few * ((many - 1) / (many - few)); // the code for many always gains above this
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
