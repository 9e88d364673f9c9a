// All of this runs on one thread; only TurnWork is shared.
#include "runtime/Turns.h"
#include "runtime/Scratch.h"
#include <sched.h>
#include <utility>

namespace tegula::runtime {

/// Turns of each program in flight before another one is started: the awaited event usually happens soon on another
/// thread.
static constexpr size_t turnsBeforeStart = 4;
/// Refused starts per program in flight, without a program of the launch ending, before the launch is refused.
static constexpr size_t patience = 64;

static thread_local Turns *innermost = nullptr;
Turns *Turns::current() { return innermost; }

Turns::~Turns() {
  for (auto &r : all_) r->context.dispose();
}

void Turns::takePrograms() {
  ScratchLease scratch(scratchBytes_);
  if (scratch.failed()) return work_.noScratch();
  while (work_.runOne(scratch.data())) waits_ = starts_ = 0;
}

void Turns::run() {
  Turns *outer = std::exchange(innermost, this);
  takePrograms();
  while (!waiting_.empty()) {
    Runner *next = waiting_.front();
    waiting_.pop_front();
    switchTo(next);
  }
  innermost = outer;
}

void Turns::switchTo(Runner *next, bool forGood) {
  Runner *self = std::exchange(running_, next);
  sim::switchContext(self->context, next->context, forGood);
}

void Turns::runnerMain(void *self) {
  auto *t = static_cast<Turns *>(self);
  t->takePrograms();
  t->work_.dismiss();
  t->waits_ = t->starts_ = 0;
  t->free_.push_back(t->running_);
  // If no program waits, the host has run out of programs and is in run().
  Runner *next = &t->host_;
  if (!t->waiting_.empty()) next = t->waiting_.front(), t->waiting_.pop_front();
  t->switchTo(next, true);
}

Turns::Runner *Turns::fresh() {
  Runner *r;
  if (!free_.empty()) {
    r = free_.back();
    free_.pop_back();
  } else {
    auto made = std::make_unique<Runner>();
    made->stack = std::make_unique<sim::StackSlab>(1, stackBytes_);
    if (!made->stack->ok()) return nullptr;
    r = made.get();
    all_.push_back(std::move(made));
  }
  r->context.prepare(r->stack->bottom(0), r->stack->stackBytes(), 0, &Turns::runnerMain, this);
  return r;
}

/// Starts a program that no thread has taken, if it is admitted; the caller waits meanwhile.
bool Turns::startAnother() {
  Runner *next = nullptr;
  if (work_.admit() && !(next = fresh())) work_.dismiss();
  if (next) {
    refused_ = 0;
    waiting_.push_back(running_);
    switchTo(next);
    return true;
  }
  if (int64_t n = work_.finished(); n != finishedThen_) finishedThen_ = n, refused_ = 0;
  if (++refused_ > patience * (waiting_.size() + 1)) work_.refuse();
  return false;
}

void Turns::wait() {
  if (work_.stopped()) return;
  size_t inFlight = waiting_.size() + 1;
  if (++waits_ > turnsBeforeStart * inFlight) waits_ = 0, starts_ = inFlight;
  if (starts_ && work_.pending()) {
    --starts_;
    if (startAnother()) return;
  }
  // The programs that these wait for may be on a thread without a core.
  if (waits_ % inFlight == 0) sched_yield();
  if (waiting_.empty()) return;
  waiting_.push_back(running_);
  Runner *next = waiting_.front();
  waiting_.pop_front();
  switchTo(next);
}

} // namespace tegula::runtime
