// Everything that talks to the launch: assertions, printing, register pools, dependent launches.
#include "sim/AsyncState.h"
#include "sim/State.h"

using namespace tegula::sim;

namespace tegula::sim {

/// A warp's setmaxnreg; the register counts are in the first lane's slot.
static bool tryChange(Thread *warp, uint32_t wanted) {
  Warp &w = *warp->warp;
  Cta &cta = *warp->cta;
  if (wanted > w.registers && (wanted - w.registers) * 32 > cta.freeRegisters)
    return false;
  cta.freeRegisters = cta.freeRegisters + w.registers * 32 - wanted * 32;
  w.registers = wanted;
  return true;
}

static void runSetMaxRegisters(Thread *warp, uint32_t mask) {
  auto wanted = uint32_t(warp->slot.a);
  int32_t site = int32_t(warp->slot.b >> 1);
  bool inc = warp->slot.b & 1;
  uint32_t have = warp->warp->registers;
  if (mask != ~0u || wanted < 24 || wanted > 256 || wanted % 8 || (inc ? wanted < have : wanted > have))
    fail(warp, FaultKind::BadInstruction, site, -1,
         "executes setmaxnreg.%s %u at site %d with %u registers; the count must be a multiple of 8 in 24..256 and "
         "must not go the "
         "other way, and the whole warp must come",
         inc ? "inc" : "dec", wanted, site, have);
  uint32_t pool = warp->cta->freeRegisters;
  for (const Warp &w : warp->cta->warps)
    pool += w.registers * 32;
  if (wanted * 32 > pool)
    fail(warp, FaultKind::Registers, site, -1,
         "executes setmaxnreg.inc %u at site %d; its CTA has only %u registers in all", wanted, site, pool);
  warp->slot.result = tryChange(warp, wanted);
}

/// Lets those go on who now find enough free registers.
static void wakeRegisterWaiters(Cta &cta) {
  std::vector<Thread *> &list = cta.registerWaiters;
  for (Thread *t : list)
    wake(t);
  list.clear();
}

} // namespace tegula::sim

TegulaSimThread::TegulaSimThread() = default;
TegulaSimThread::~TegulaSimThread() { context.dispose(); }

void tegula_sim_setmaxnreg(TegulaSimThread *t, int32_t site, int32_t regs, int32_t inc) {
  t->slot = {uint64_t(uint32_t(regs)), uint64_t(uint32_t(site)) << 1 | uint64_t(inc != 0)};
  collect(t, "setmaxnreg", site, ~0u, runSetMaxRegisters);
  if (!inc)
    return wakeRegisterWaiters(*t->cta);
  // Whichever lane runs first after registers came free takes them for the warp.
  while (t->warp->registers != uint32_t(regs)) {
    if (tryChange(t, uint32_t(regs)))
      return;
    t->wait = {Wait::Registers, site, uint64_t(uint32_t(regs))};
    t->cta->registerWaiters.push_back(t);
    block(t);
  }
}

void tegula_sim_griddep(TegulaSimThread *t, int32_t site, int32_t what) {
  // Launches follow one another here: what came before has finished, and what comes after may start whenever it likes.
}

void tegula_sim_assert_fail(TegulaSimThread *t, int32_t site) {
  fail(t, FaultKind::Assert, site, -1, "failed a device_assert at site %d", site);
}

void tegula_sim_print(TegulaSimThread *t, int32_t site, int32_t operand, int64_t index, uint64_t bits) {
  LaunchState &launch = *t->cluster->launch;
  if (!launch.config.print)
    return;
  std::lock_guard lock(launch.mutex);
  launch.config.print(site, operand, t->cluster->index, index, bits);
}
