// State of one compilation.
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

/// What the functions of one compilation share.
struct ModuleState {
  llvm::Module &llvm;
  const ir::Module &source;
  const CpuTarget &target;
  const Options &options;
  KernelMeta &meta;
  std::map<std::string, llvm::Function *> functions; // noinline callees; tegula.fault
  std::map<std::string, uint64_t> scratchBytes;      // of callees, with theirs
  DebugEmitter *debug = nullptr;
  DiagEngine *remarks = nullptr;
  // accesses and what notVectorized() named; an operation is emitted once or more for each nest that needs it
  std::set<const ir::Op *> remarked;

  /// Says at the operation's place that it is computed one element at a time, and why. Once for each operation.
  void notVectorized(const ir::Op &op, std::string_view why);
  /// Of what makes the lanes of a nest single elements, if that has more than one element.
  void notVectorized(const Nest &n);
};

} // namespace tegula::cpu
