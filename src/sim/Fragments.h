// Which element of a matrix a register holds: fragments of matrix instructions as maps over GF(2).
//
// The position of (sub-element, register, lane) is the XOR of the images of all set bits, written (row, column). The
// tables are those of docs/hopper.md, sections on wgmma and mma.sync.
#pragma once
#include <cstdint>

namespace tegula::sim {

struct Position {
  uint16_t row = 0, col = 0;
};

struct Fragment {
  uint8_t subBits,
      regBits; // how many of the images below are used (registers beyond follow col = 8, 16, ... for accumulators)
  Position sub[2], reg[3], lane[5];

  Position at(uint32_t subElement, uint32_t reg_, uint32_t lane_) const {
    Position p;
    auto mix = [&](const Position *images, unsigned bits, uint32_t index) {
      for (unsigned i = 0; i < bits; ++i)
        if (index >> i & 1)
          p.row ^= images[i].row, p.col ^= images[i].col;
    };
    mix(sub, subBits, subElement);
    mix(reg, regBits, reg_);
    mix(lane, 5, lane_);
    return p;
  }
};

/// Operand fragments by width of an element: 8, 16, 32 (tf32) and 64 bits. A: (m, k), B: (k, n). Smaller K use fewer
/// registers.
inline constexpr Fragment fragmentA[4] = {
    {2, 2, {{0, 1}, {0, 2}}, {{8, 0}, {0, 16}}, {{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}}},
    {1, 2, {{0, 1}}, {{8, 0}, {0, 8}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}},
    {0, 2, {}, {{8, 0}, {0, 4}}, {{0, 1}, {0, 2}, {1, 0}, {2, 0}, {4, 0}}},
    {0, 3, {}, {{8, 0}, {0, 4}, {0, 8}}, {{0, 1}, {0, 2}, {1, 0}, {2, 0}, {4, 0}}},
};
inline constexpr Fragment fragmentB[4] = {
    {2, 1, {{1, 0}, {2, 0}}, {{16, 0}}, {{4, 0}, {8, 0}, {0, 1}, {0, 2}, {0, 4}}},
    {1, 1, {{1, 0}}, {{8, 0}}, {{2, 0}, {4, 0}, {0, 1}, {0, 2}, {0, 4}}},
    {0, 1, {}, {{4, 0}}, {{1, 0}, {2, 0}, {0, 1}, {0, 2}, {0, 4}}},
    {0, 2, {}, {{4, 0}, {8, 0}}, {{1, 0}, {2, 0}, {0, 1}, {0, 2}, {0, 4}}},
};
/// Accumulators: 32-bit (and 64-bit) elements, one a register, and packed f16. Further registers: 8 columns each.
inline constexpr Fragment fragmentD = {0, 2, {}, {{0, 1}, {8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}};
inline constexpr Fragment fragmentHalfD = {1, 1, {{0, 1}}, {{8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}};

/// Index into the operand tables for TEGULA_MMA_*; the width of an element in bits is 8 << index.
constexpr uint32_t widthIndex(int32_t type) {
  constexpr uint8_t index[] = {1, 1, 2, 0, 0, 0, 0, 3, 2, 2};
  return index[type];
}

} // namespace tegula::sim
