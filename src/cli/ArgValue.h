// The values of `-a NAME=VALUE`: buffers read from files or generated, and scalars.
#pragma once
#include "cli/Cli.h"
#include "support/Expr.h"
#include "support/Npy.h"

namespace tegula::cli {

struct ArgValue {
  std::string name;
  bool isBuffer = false;
  // Buffers: `memory` is a 64-byte aligned copy of `array.data`.
  NpyArray array;
  TegulaDtype dtype = TEGULA_VOID;
  std::unique_ptr<char, void (*)(void *)> memory{nullptr, nullptr};
  size_t bytes = 0;
  // Buffers given as tensor descriptors: extents of the block; empty: a plain pointer.
  std::vector<int64_t> block;
  bool nanPadding = false, roundTf32 = false;
  // Scalars
  TegulaArg scalar{};
  std::optional<int64_t> integer;
};

/// Is this type a float, of 8 bits or more?
inline bool isFloat(TegulaDtype d) { return d >= TEGULA_FP8E5; }

/// Parses all items. Shapes of generated buffers may name integer arguments and constants. Forms:
///   @file.npy[:dtype]   empty|zeros|ones|randn|arange:dtype[shape]   number   none   true   false
///   tensordesc[block]:BUFFER, tensordesc[block, nan, tf32]:BUFFER   a tensor descriptor of one of the first two forms
/// randn is reproducible (splitmix64 and Box-Muller, seeded by the argument's name). False: `error` has the message.
bool parseArguments(const std::vector<std::string> &items, const Constants &constants, std::vector<ArgValue> &out,
                    std::string &error);

/// The contents of a buffer as text in NumPy's format; long ones are shortened.
std::string formatBuffer(const ArgValue &a);

} // namespace tegula::cli
