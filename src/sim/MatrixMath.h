// Products of small matrices of floats and integers, and the decoding of operands.
#pragma once
#include <cstdint>

namespace tegula::sim {

/// acc[m x n] += a[m x k] * b[k x n], row-major, k added up in order. Products of the operand formats are exact in
/// float; each addition rounds to nearest (the hardware aligns and truncates: docs/rationale/sim.md). n is a multiple
/// of 8.
void multiplyFloat(float *acc, const float *a, const float *b, uint32_t m, uint32_t n, uint32_t k);
void multiplyInt(int32_t *acc, const int32_t *a, const int32_t *b, uint32_t m, uint32_t n, uint32_t k);

/// `count` elements of a TEGULA_MMA_* type, packed at `from`, to floats or integers every `step` elements.
void decodeFloats(int32_t type, const uint8_t *from, uint32_t count, float *to, uint32_t step);
void decodeInts(int32_t type, const uint8_t *from, uint32_t count, int32_t *to, uint32_t step);
/// Is the type multiplied as integers?
bool isIntType(int32_t type);

} // namespace tegula::sim
