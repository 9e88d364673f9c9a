// See Scheduler.h.
#include "targets/common/Scheduler.h"
#include "llvm/CodeGen/SchedulerRegistry.h"
#include "llvm/CodeGen/SelectionDAG.h"
#include "llvm/CodeGen/SelectionDAGISel.h"
#include "llvm/Support/CommandLine.h"
#include <cassert>
#include <mutex>

namespace tegula::targets {

static llvm::ScheduleDAGSDNodes *createScheduler(llvm::SelectionDAGISel *selection, llvm::CodeGenOptLevel level) {
  constexpr size_t large = 1000;
  bool isFast = level == llvm::CodeGenOptLevel::None && selection->CurDAG->allnodes_size() > large;
  return isFast ? llvm::createFastDAGScheduler(selection, level) : llvm::createDefaultScheduler(selection, level);
}

void chooseScheduler() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The registry has no default to set: only the option that names one of its schedulers, which knows those
    // registered since, too.
    static llvm::RegisterScheduler ours("tegula", "by size", createScheduler);
    constexpr const char *name = "pre-RA-sched";
    auto &options = llvm::cl::getRegisteredOptions();
    auto option = options.find(name);
    [[maybe_unused]] bool isRefused = option == options.end() || option->second->addOccurrence(0, name, "tegula");
    assert(!isRefused);
  });
}

} // namespace tegula::targets
