// State that all functions of one compilation share.
#pragma once
#include "targets/cpu/Codegen.h"
#include <map>
#include <set>
#include <string>

namespace tegula::targets {
class DebugEmitter;
}

namespace tegula::cpu {

using targets::DebugEmitter;

struct Nest;

/// Shared by the emitters of a module's functions. Holds references only, and the maps below.
struct ModuleState {
  llvm::Module &llvm;
  const ir::Module &source;
  const CpuTarget &target;
  const Options &options;
  KernelMeta &meta;
  std::map<std::string, llvm::Function *> functions; // noinline callees; tegula.fault
  std::map<std::string, uint64_t> scratchBytes;      // of callees, including their own callees'
  DebugEmitter *debug = nullptr;
  DiagEngine *remarks = nullptr;
  // operations with a remark already; one operation may be emitted several times, at least once per nest that uses it
  std::set<const ir::Op *> remarked;

  /// Remarks at the operation's location that it is computed one element at a time, and why. Once per operation.
  void notVectorized(const ir::Op &op, std::string_view why);
  /// The same for the operation that forces a nest to one lane, if the nest has more than one element.
  void notVectorized(const Nest &n);
};

} // namespace tegula::cpu
