// The options of a compilation: one struct, used from the api layer to the last pass of a target. The passes of the GPU
// level see its base class only.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/LaunchForms.h"
#include <functional>
#include <string>

namespace tegula::targets {

enum class Depth : uint8_t {
  Code,
  Sketch, // everything but the code, in a few percent of the time
  Source  // like Sketch, but the work is as in the source: not split by the target
};

/// A target ignores options that do not apply to it.
struct Options : gpu::Options {
  bool fpFusion = true;      // a * b + c may become fma, within one expression of a kernel
  bool keepsSubnormals = false; // float32 exp2 and fast functions on GPUs
  bool debugInfo = false;    // DWARF or PTX lines of the kernel; on CPUs scalars as variables
  bool checked = false;      // check every access; the simulator always does
  bool wide = false;         // some tensor may have bigTensorElements or more (passes/WidenOffsets.h)
  // verify the module after every stage, and LLVM IR before and after its optimizer; builds with assertions always do
  bool verify = false;
  unsigned optLevel = 2;     // 0..3
  Depth depth = Depth::Code;
  LaunchFacts facts;         // facts about the launches that the code is specialized for
  /// Called between stages, on the compiling thread. True cancels the compilation without a message. May be empty.
  std::function<bool()> interrupted;
  // the folder for modules that fail verification after a pass (ir/StageVerifier.h); "": they are not written
  std::string reproducers;
};

inline bool isInterrupted(const Options &o) { return o.interrupted && o.interrupted(); }

} // namespace tegula::targets
