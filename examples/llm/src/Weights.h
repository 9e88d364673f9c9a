// A model's weights: from safetensors files or random by a seed, in the precision that is asked for; names are Hugging Face's.
#pragma once
#include "Config.h"
#include "Kernels.h"
#include "Safetensors.h"
#include <functional>

namespace llm {

/// A weight matrix [outputs, inputs] on the host and, after Weights::load, on the device. Dense: `values`. Quantized: `values` are bytes in quantized.py's layout. Matrices of several experts,
/// one behind the other, are one: each has outputs / experts of the outputs, which are whole blocks of that layout.
struct Matrix {
  int64_t outputs = 0, inputs = 0;
  int bits = 0; // of a quantized matrix: 4 or 8; 0: dense
  Tensor values, scales;
  int64_t experts = 1;
  Buffer deviceValues, deviceScales;
  /// The weight that element (output, input) stands for.
  float at(int64_t output, int64_t input) const;
  /// Bytes that a product reads.
  int64_t bytes() const { return values.bytes() + (bits ? scales.bytes() : 0); }
};

struct LayerWeights {
  Tensor attentionNorm, feedForwardNorm;
  Buffer deviceAttentionNorm, deviceFeedForwardNorm;
  Tensor qBias, kBias, vBias;  // of Config::qkvBias, all of one type
  Tensor queryNorm, keyNorm;   // [headDim], of Config::headNorms
  Buffer deviceQBias, deviceKBias, deviceVBias, deviceQueryNorm, deviceKeyNorm;
  Buffer deviceBias; // the three biases, one behind the other
  Matrix q, k, v, o, gate, up, down;
  Matrix qkv, gateUp; // on GPUs: q, k and v, gate and up, one behind the other, on the device only; not where they have several forms, or are quantized and no whole blocks
  Matrix router, expertGate, expertUp, expertDown;
};

class Weights {
public:
  struct Options {
    std::string path;   // a file or folder of safetensors; empty: random
    uint64_t seed = 0;  // of random weights
    bool keep = false;  // quantized tensors only (for the quantize tool): nothing goes to a device
    std::function<void(const std::string &)> progress; // a line for people; may be empty
  };
  /// Loads what `config` asks for. Files that the quantize tool wrote have a precision of their own: another one is an error, `precision` empty takes it; for other
  /// files and random weights the default is bf16. Matrices whose inputs are no multiple of the group stay dense. Errors name the tensor: missing, of another shape, of a type that is not supported.
  static Result<Weights> load(const Config &config, std::optional<Precision> precision, const Options &options, const Kernels &kernels, const Device &device);

  Config config;
  Precision precision = Precision::Bf16;
  Tensor embedding, finalNorm;
  Buffer deviceEmbedding, deviceFinalNorm;
  Matrix output;
  std::vector<LayerWeights> layers;

  /// Bytes that one decode step of one sequence reads: all matrices (of experts the chosen ones), norms, one row of the embedding.
  int64_t bytesPerStep() const;
  /// Bytes of all tensors.
  int64_t bytes() const;
  /// Calls f(name, matrix) for each matrix, and g(name, tensor) for everything else.
  void visit(const std::function<void(const std::string &, Matrix &)> &f, const std::function<void(const std::string &, Tensor &, Buffer &)> &g);
};

/// The precision that the quantize tool wrote into the files' metadata; none: plain files.
Result<std::optional<Precision>> storedPrecision(const std::string &path);

/// About what the weights take, before anything is loaded.
int64_t expectedWeightBytes(const Config &config, Precision precision);

/// A new matrix in a quantized form, by the kernel.
Result<Matrix> quantize(const Matrix &dense, int bits, const Kernels &kernels, const Device &device);

} // namespace llm
