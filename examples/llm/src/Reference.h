// The same model in float64, in plain loops: what the kernels' results are compared with. Slow; for models of a few million parameters.
#pragma once
#include "Weights.h"

namespace llm {

/// What the model makes of a sequence.
struct Reference {
  std::vector<std::vector<double>> logits; // behind each token, [tokens][vocab]
  /// By token, of all layers: how far the last chosen expert's router logit is above the first one not chosen. Where that is less than the kernels' rounding, they may
  /// rightly choose another expert, and the logits from there on are another model's. Infinite without experts.
  std::vector<double> margins;
};

/// Weights are taken as they are kept (quantized ones as the numbers they stand for); nothing else is rounded.
Reference reference(const Weights &weights, std::span<const int32_t> tokens);

} // namespace llm
