// How a kernel is compiled: the one set of options, from the api to the last pass of a target. The passes of the GPU
// level see their part of it.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/LaunchForms.h"
#include <functional>
#include <string>

namespace tegula::targets {

enum class Depth : uint8_t {
  Code,
  Sketch, // everything but the code, in a few hundredths of the time
  Source  // the same with the work as the source has it, whatever the target splits
};

/// A target ignores what it has no use for.
struct Options : gpu::Options {
  bool fpFusion = true;      // a * b + c may become fma, within one expression of a kernel
  bool keepsSubnormals = false; // float32 exp2 and fast functions on GPUs
  bool debugInfo = false;    // DWARF or PTX lines of the kernel; on CPUs scalars as variables
  bool checked = false;      // every access is checked; on the simulator all of them always are
  bool wide = false;         // some tensor may have bigTensorElements or more (passes/WidenOffsets.h)
  // the module after every stage, and LLVM's before and after its optimizer; builds with assertions always do
  bool verify = false;
  unsigned optLevel = 2;     // 0..3
  Depth depth = Depth::Code;
  LaunchFacts facts;         // of the launches that it is made for
  /// Asked between stages, on the thread that compiles; true ends the compilation without a message. May be empty.
  std::function<bool()> interrupted;
  // the folder for modules that a pass broke a rule with (ir/StageVerifier.h); "": they are not written
  std::string reproducers;
};

inline bool isInterrupted(const Options &o) { return o.interrupted && o.interrupted(); }

} // namespace tegula::targets
