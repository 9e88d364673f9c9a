// The kernels of ../kernels, whose text is in the program, and what chooses their tiles.
#pragma once
#include "Device.h"

namespace llm {

/// The functions by name; compiled at their first launch with arguments of a new kind.
struct Kernels {
  tegula::Function rmsNorm, embedding, gatherRows, ropeAppend, swiglu, attention, decodeAttention, attentionParts, argmax, argmaxParts, argmaxJoin, sample;
  tegula::Function gemv, gemvFused, matmul, tiledMatmul, splitActivations, integerMatmul, widenedMatmul, sharedMatmul, widenedGemv, groupedIntegerMatmul, groupedWidenedMatmul, quantizeWeights, dequantizeWeights;
  tegula::Function moeGate, moeAlign, groupedMatmul, moeCombine;
  static Result<Kernels> load(const tegula::Context &context);
};

/// Inputs in a group of quantized weights that share a scale, and outputs in a block of their layout (quantized.py).
constexpr int64_t quantGroup = 64, quantBlock = 64;

inline int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t nextPowerOf2(int64_t n) { return int64_t(std::bit_ceil(uint64_t(n))); }

} // namespace llm
