// The part of TegulaLaunchOptions that a compilation and a call depend on, with every default filled in.
#pragma once
#include "lang/Level.h"
#include "support/LaunchForms.h"
#include "tegula/tegula.h"
#include <memory>
#include <string>

namespace tegula::api {

/// Options of a compilation with every default filled in: the part of TegulaLaunchOptions that belongs to the key.
struct CompileOptions {
  int32_t numWarps = 4, numStages = 3, numCtas = 1, maxnreg = 0;
  bool debug = false, checked = false, debugInfo = false, fpFusion = true, sanitizeOverflow = true;
  // verify: in the key, so that no kernel from the disk cache escapes verification; keepsPtx: for another machine,
  // keeps PTX that its driver compiles to better code; asCubin: assembles such PTX all the same (to show a stage)
  bool verify = false, keepsPtx = false, asCubin = false;
  // the folder for modules in which a pass broke a rule; not in the key, as it does not affect code
  std::shared_ptr<const std::string> reproducers;
  // wide: offsets are computed in 64 bits, for big tensors (passes/WidenOffsets.h)
  bool strict = false, cooperative = false, programmaticLaunch = false, keepsSubnormals = false, wide = false;
  uint8_t optLevel = 2, device = 0, clusters = 0; // device: that the code is loaded on; clusters: a gpu::Clusters
  lang::Level level = lang::latestLevel; LaunchFacts facts; // of these facts, keys contain only the form
  /// Everything but maxnreg and the form, packed.
  uint64_t word() const {
    return uint64_t(numWarps & 0xffff) << 48 | uint64_t(numStages & 0xff) << 40 | uint64_t(numCtas & 0xff) << 32 |
           uint64_t(level) << 24 | uint64_t(device) << 16 | uint64_t(keepsSubnormals) << 14 | uint64_t(wide) << 13 |
           uint64_t(strict) << 12 | uint64_t(verify) << 11 | uint64_t(cooperative) << 10 |
           uint64_t(programmaticLaunch) << 9 | uint64_t(debug) << 8 | uint64_t(checked) << 7 |
           uint64_t(debugInfo) << 6 | uint64_t(fpFusion) << 5 | uint64_t(sanitizeOverflow) << 4 |
           uint64_t(clusters & 3) << 2 | uint64_t(clusters >> 2) << 15 | optLevel;
  }
};

/// The options of one call, resolved against the context.
struct CallOptions {
  CompileOptions compile;
  unsigned threads = 1;
  uint64_t hangNs = 0;
  int32_t device = 0;
  bool deviceGiven = true; // false: inferred from the arguments
  bool nullsOnly = false;  // `compile.checked` is set only for null pointers, see hasNulls
  TegulaMemoryFn memory = nullptr;
  // of the launches that follow, for signatures
  void *stream = nullptr, *memoryUser = nullptr; const char *integers = nullptr;
};

} // namespace tegula::api
