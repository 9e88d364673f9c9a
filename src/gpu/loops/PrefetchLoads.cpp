// See PrefetchLoads.h.
#include "gpu/loops/PrefetchLoads.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/Layouts.h"
#include "gpu/LoopSlice.h"
#include "gpu/Work.h"
#include "gpu/loops/LoopObstacles.h"
#include "ir/Walk.h"
#include "passes/ArgumentAccess.h"
#include "passes/LaunchNumbers.h"
#include <algorithm>
#include <cstdlib>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr uint64_t registerBits = 32;

/// Decides by the trip counts of loops in the launches that the code is compiled for; by one trip count per kernel.
class Trips {
public:
  /// Kernels with dots have no forms by trip counts, nor have kernels whose registers the user or clusters decide.
  Trips(const Function &kernel, const Options &options, const LaunchFacts *facts, LaunchForms *asked)
      : kernel_(kernel), warps_(options.numWarps), facts_(facts), asked_(asked),
        asks_(facts && asked && !options.maxRegisters && !options.stagesRows && options.numCtas == 1 &&
              !anyOp(*kernel.block(), [](const Op &op) { return op.kind == OpKind::Dot; })) {}

  /// Has the loop more than `few` trips, and are loads ahead worth their registers? Not in `isSmall` loops if a few
  /// more registers keep the grid from running at once: all warps together have enough loads in flight, and a second
  /// round takes as long as the first (a recurrence of bf16, 16 x 32 by four warps, 2048 programs, H200: 32 registers
  /// 119 us, 40 and two rounds 154; of 512 programs 252 and 182).
  bool areMany(const Op &loop, bool isSmall, int64_t few) {
    if (!asks_)
      return false;
    LaunchForms forms;
    const int32_t number = LaunchNumbers(kernel_, forms).tripsOf(loop);
    if (number < 0)
      return false;
    constexpr uint8_t fewForm = 1;
    constexpr int64_t mostWarps[] = {48, 64}, sixteenths = 16; // with 40 registers, and with 32
    forms.axes = {{LaunchForms::Axis::grid, {}}, {number, {few}}};
    for (const int64_t warps : mostWarps)
      forms.axes[0].limits.push_back(sixteenths * warps / warps_);
    forms.forms = {fewForm, aheadForm, fewForm, isSmall ? fewForm : aheadForm, fewForm, aheadForm};
    forms.unknown = fewForm;
    forms.form = !facts_->form ? forms.formFor(*facts_) : facts_->form & aheadForm ? aheadForm : fewForm;
    if (!asked_->asks())
      *asked_ = std::move(forms);
    else if (asked_->exprs != forms.exprs || asked_->axes != forms.axes)
      return false;
    return asked_->form == aheadForm;
  }

private:
  const Function &kernel_;
  const int64_t warps_;
  const LaunchFacts *facts_;
  LaunchForms *asked_;
  bool asks_;
};

class LoopPrefetcher {
public:
  LoopPrefetcher(Module &m, Op &loop, const TargetInfo &target, const Options &options, unsigned blocks, Trips &trips)
      : b_(m), module_(m), loop_(loop), body_(*loop.region(0)), slice_(loop), target_(target), options_(options),
        blocks_(blocks ? blocks : 2048 / target.lanes() / options.numWarps), trips_(trips) {
    b_.setFolding(false);
  }

  bool run() {
    if ((loop_.pipelined() || (!collect() && !collectWithoutDot())) && !collectFew())
      return false;
    const int64_t distance = distanceOf();
    if (!distance)
      return false;
    // Before the loop: the loads of the first iterations.
    Block before, ahead;
    before.parent = loop_.parent->parent;
    b_.setBlock(&before);
    std::vector<std::vector<Value *>> first;
    LoopSlice::Map map = slice_.start();
    for (int64_t i = 0; i < distance; ++i) {
      if (i)
        map = slice_.next(b_, std::move(map));
      first.push_back(
          copyLoads(map, i ? runsAhead(b_, loop_, loop_.operands[0], i) : gpu::runs(b_, loop_, map.at(body_.args[0]))));
    }
    splice(before, *loop_.parent, positionOf(*loop_.parent, &loop_));
    // At the top of the body, or after the uses of this iteration's loads: the loads of a later iteration.
    ahead.parent = body_.parent;
    b_.setBlock(&ahead);
    map = {};
    for (int64_t i = 0; i < distance; ++i)
      map = slice_.next(b_, std::move(map));
    std::vector<Value *> next = copyLoads(map, distance > 1 ? runsAhead(b_, loop_, body_.args[0], distance)
                                                            : gpu::runs(b_, loop_, map.at(body_.args[0])));
    splice(ahead, body_, placeOfLoads());
    // The loop carries the loaded tiles; each moves one place on in each iteration.
    for (size_t i = 0; i < loads_.size(); ++i) {
      std::vector<Value *> args;
      for (int64_t k = 0; k < distance; ++k)
        args.push_back(carry(module_, loop_, first[static_cast<size_t>(k)][i], loads_[i]->result()->name));
      replaceUses(body_, loads_[i]->result(), args[0]);
      for (size_t k = 0; k < args.size(); ++k)
        carryOn(loop_, args[k], k + 1 < args.size() ? args[k + 1] : next[i]);
      std::erase(body_.ops, loads_[i]);
    }
    return true;
  }

private:
  /// Collects the loads that feed a dot, if their addresses can be computed ahead.
  bool collect() {
    for (const Op *op : body_.ops) {
      bool isPipeline =
          op->kind == OpKind::If && std::all_of(op->region(0)->ops.begin(), op->region(0)->ops.end(), [](const Op *o) {
            return o->has(traits::Shared | traits::Pure | traits::Terminator);
          });
      if ((op->has(traits::Writes) && !op->has(traits::Shared)) || (!op->regions.empty() && !isPipeline))
        return false;
    }
    loads_ = loadsOfDots(body_);
    std::erase_if(loads_, [](const Op *load) { return load->kind != OpKind::Load; });
    return !loads_.empty() && std::all_of(loads_.begin(), loads_.end(), [&](const Op *load) {
      return std::all_of(load->operands.begin(), load->operands.end(), [&](const Value *v) { return slice_.add(v); });
    });
  }

  /// Without a dot: collects the loads if threads synchronize in the loop, or if the loop asks for stages itself and
  /// loads so little that all threads of a multiprocessor leave memory idle.
  bool collectWithoutDot() {
    scans_ = std::any_of(body_.ops.begin(), body_.ops.end(), [](const Op *op) { return op->kind == OpKind::Scan; });
    meets_ = std::any_of(body_.ops.begin(), body_.ops.end(), [&](const Op *op) {
      return (op->kind == OpKind::Reduce || op->kind == OpKind::Scan) && crossesThreads(module_, *op);
    });
    if ((!loop_.find(attr::numStages) && !meets_) || hasDot(loop_) || obstacleOfLoop(loop_))
      return false;
    hasNoDot_ = true;
    loads_.clear();
    for (Op *op : body_.ops)
      if (op->kind == OpKind::Load && op->result()->type.isTensor() && !op->isVolatile() &&
          std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *v) { return slice_.add(v); }))
        loads_.push_back(op);
    return !loads_.empty() && (meets_ || iterationsOfMemory() > 1);
  }

  /// The number of iterations whose loads a full multiprocessor must have in flight to keep its share of memory busy.
  int64_t iterationsOfMemory() const {
    uint64_t bytes = 0;
    for (const Op *load : loads_)
      bytes += static_cast<uint64_t>(load->result()->type.numel()) * byteWidth(load->result()->type.elem);
    const uint64_t all = std::max<uint64_t>(1, bytes * blocks_);
    return static_cast<int64_t>((bytesInFlight + all - 1) / all);
  }

  /// Beside dots: collects loads of scalars and of a few elements for each thread, whatever is computed from them
  /// (scales of blocks, numbers of pages). Without this an iteration would wait for the full latency of memory.
  bool collectFew() {
    constexpr uint64_t most = 4; // registers for all of them
    loads_.clear();
    if (!hasDot(loop_) || mayWriteWhatIsLoaded(body_))
      return false;
    uint64_t bits = 0;
    for (Op *op : body_.ops) {
      // it already belongs to the next iteration
      const bool isAhead = op->kind == OpKind::Load && uses(*body_.terminator(), op->result());
      if (op->kind != OpKind::Load || op->isVolatile() || isAhead || bits + bitsOf(*op) > most * registerBits)
        continue;
      if (std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *v) { return slice_.add(v); })) {
        loads_.push_back(op);
        bits += bitsOf(*op);
      }
    }
    return !loads_.empty();
  }

  /// Accesses through different arguments are assumed not to alias.
  bool mayWriteWhatIsLoaded(const Block &b) const {
    return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
      if (op->kind == OpKind::For || op->kind == OpKind::While)
        return true;
      if (op->has(traits::Writes) && !op->has(traits::Shared)) {
        const int to = op->kind == OpKind::Store || op->kind == OpKind::DescStore ? memoryOf(op->operands[0]) : -1;
        if (to < 0 || anyOp(body_, [&](const Op &load) {
              return load.kind == OpKind::Load && (memoryOf(load.operands[0]) == to || memoryOf(load.operands[0]) < 0);
            }))
          return true;
      }
      return std::any_of(op->regions.begin(), op->regions.end(),
                         [&](const Region *r) { return mayWriteWhatIsLoaded(*r->block); });
    });
  }

  /// Bits of registers that the load's result takes in a thread.
  uint64_t bitsOf(const Op &load) const {
    const Type &t = load.result()->type;
    return std::max<uint64_t>(registerBits, t.isTensor() ? uint64_t{bitWidth(t.elem)}
                                                               << module_.layoutOf(t).inBits(layout::Dim::Register)
                                                         : bitWidth(t.elem));
  }

  /// Is it a loop over blocks of a row, where one block may be the full row? Then nothing is loaded ahead, and the
  /// registers for it cost blocks on the multiprocessor, which alone hide the latency (cumsum of 1024 columns, H200, by
  /// 4096 fp32 with 8 warps: 0.66 of Triton's speed, by 1024 bf16 with 4 0.95 of what it was). The facts of the launch
  /// decide then.
  bool mayRunOnce() const {
    const std::optional<int64_t> first = constantInt(loop_.operands[0]), last = constantInt(loop_.operands[1]),
                                 step = constantInt(loop_.operands[2]);
    return first && step && (std::abs(*step) > 1 || isQuotient(loop_.operands[1])) &&
           !(last && (*last - *first) / *step > 1);
  }

  /// Is it a quotient, as in programs that compute the number of blocks of an extent?
  static bool isQuotient(const Value *v) {
    while (v->def && (v->def->kind == OpKind::SExt || v->def->kind == OpKind::ZExt || v->def->kind == OpKind::Trunc))
      v = v->def->operands[0];
    return v->def && (v->def->kind == OpKind::SDiv || v->def->kind == OpKind::UDiv || v->def->kind == OpKind::AShr ||
                      v->def->kind == OpKind::LShr);
  }

  /// The number of accesses of a thread in an iteration.
  int64_t accessesOf(const Op &load) const {
    const Type &t = load.result()->type;
    return t.isTensor() ? (int64_t{1} << module_.layoutOf(t).inBits(layout::Dim::Register)) / load.vec() : 1;
  }

  /// How many iterations the loads go ahead; 0: none. Beside dots, as many as the copies to shared memory, as the loop
  /// would otherwise wait for these loads; one if more take too many registers, or if an iteration's dots take as long
  /// as memory. Without a dot, as many as the loop asks for; none if even one iteration takes too many registers. A
  /// loop that does not ask goes one ahead if that takes at most a quarter of the registers with which two blocks share
  /// a multiprocessor: a single block waits at its barriers (cross entropy bf16, 32768 columns an iteration by 32
  /// warps, H200: 93 us without, 129 with; by 16 warps 94 and 81). It does not go ahead if its elements are loaded one
  /// by one: each has a register and a mask of its own (rows of 50257 bf16, 4096 an iteration by 8 warps: 1.44 of
  /// Triton's speed without, 1.16 with).
  int64_t distanceOf() const {
    constexpr uint64_t most = 8; // registers, for elements that are not used in the next iteration
    int64_t copies = 1;
    for (const Op *op : body_.ops)
      if (op->kind == OpKind::AsyncWait)
        copies = std::max(copies, op->pending() + 1);
    uint64_t bits = 0;
    for (const Op *load : loads_)
      bits += bitsOf(*load);
    if (hasNoDot_) { // a third of the registers: with half of them a softmax of 64 elements a thread spilled
      auto within = [&](unsigned warps) {
        return static_cast<int64_t>(uint64_t{target_.registerLimit(target_.lanes() * warps)} / 3 * registerBits / bits);
      };
      // One iteration within the registers that a block may have. More iterations are not worth a block on the SM where
      // fewer than sixteen warps run without that block (softmax of 8192 columns, 8 warps: 168 registers, 0.81).
      constexpr unsigned enoughWarps = 16;
      if (!loop_.find(attr::numStages)) {
        constexpr unsigned partOfTwo = 4;
        constexpr int64_t mostAccesses = 8; // 8 accesses of 16 bytes take 32 registers
        constexpr uint64_t mostOfFew = 8, mostOfMany = 32; // registers
        const uint64_t limit = target_.registerLimit(target_.lanes() * 2 * options_.numWarps) / partOfTwo;
        int64_t accesses = 0;
        for (const Op *load : loads_)
          accesses += accessesOf(*load);
        if (bits > registerBits * std::min(mostOfMany, limit) || accesses > mostAccesses)
          return 0;
        // Rows of two blocks gain where they are reduced (cross entropy of 32000 columns by 16384, 16 warps in bf16,
        // H200: 95 and 81 us), and lose where they are scanned (8192 by 4096, 8 warps: 73 and 79).
        const bool isSmall = bits <= registerBits * mostOfFew;
        return !mayRunOnce() || (isSmall && !scans_) || trips_.areMany(loop_, isSmall, scans_ ? fewTrips : 1);
      }
      const int64_t wanted = meets_ ? loop_.numStages() - 1 : std::min(loop_.numStages(), iterationsOfMemory()) - 1;
      return std::min(
          {wanted, within(options_.numWarps), std::max<int64_t>(1, within(std::max(options_.numWarps, enoughWarps)))});
    }
    const bool isLong = clocksOf(body_, target_, options_.numWarps).coverMemory();
    return !isLong && static_cast<uint64_t>(copies - 1) * bits <= most * registerBits ? copies : 1;
  }

  /// Where in the body the loads stand: at the top, where they have the full iteration to arrive. The exception is a
  /// thread without registers for two iterations' elements beside its accumulators, if the elements are only stored to
  /// shared memory. Then the loads follow those stores and the asynchronous dots that start after them, so that only
  /// one iteration's elements are live at a time. (Single elements of rows that are not aligned: 128x128x32 by four
  /// warps spilled 273 words.)
  size_t placeOfLoads() const {
    // registers of an iteration's elements: each element that is loaded by itself has a register until it is stored
    int64_t held = 0;
    for (const Op *load : loads_) {
      const Type &t = load->result()->type;
      const int64_t perAccess =
          t.isTensor() ? (load->vec() * int64_t{bitWidth(t.elem)} + int64_t{registerBits} - 1) / int64_t{registerBits}
                       : 1;
      held += accessesOf(*load) * perAccess;
    }
    // Half as many again for addresses and masks. An estimate of 264, above the limit of 255, did not spill (32
    // elements one by one, 128 sums); 280 did.
    constexpr int64_t most = 270;
    if (registersOfDots(body_, int64_t{target_.lanes()} * options_.numWarps) + 2 * held + held / 2 <= most)
      return 0;
    size_t last = 0;
    for (const Op *load : loads_)
      for (const Op *user : usersIn(body_, load->result())) {
        if (user->kind != OpKind::SharedStore)
          return 0;
        last = std::max(last, positionOf(body_, user) + 1);
      }
    for (size_t i = last; i < body_.ops.size(); ++i)
      if (body_.ops[i]->kind == OpKind::Dot && body_.ops[i]->isAsync())
        last = i + 1;
    return last;
  }

  /// Clones the loads with the arguments of the body replaced by `map`, masked off unless `runs`: the iteration runs.
  std::vector<Value *> copyLoads(LoopSlice::Map map, Value *runs) {
    std::vector<Value *> out;
    for (const Op *load : loads_) {
      std::vector<Value *> operands;
      for (Value *o : load->operands)
        operands.push_back(slice_.copy(b_, o, map));
      out.push_back(LoopSlice::cloneLoad(b_, *load, std::move(operands), runs)->result());
    }
    return out;
  }

  Builder b_;
  Module &module_;
  Op &loop_;
  Block &body_;
  LoopSlice slice_;
  std::vector<Op *> loads_;
  bool hasNoDot_ = false;
  bool meets_ = false; // do threads synchronize in each iteration of such a loop?
  bool scans_ = false;
  const TargetInfo &target_;
  const Options &options_;
  const uint64_t blocks_; // on a multiprocessor
  Trips &trips_;
};

void visit(Module &m, Block &b, const TargetInfo &target, const Options &options, unsigned blocks, Trips &trips) {
  for (size_t i = 0; i < b.ops.size(); ++i) {
    Op *op = b.ops[i];
    for (Region *r : op->regions)
      visit(m, *r->block, target, options, blocks, trips);
    if (op->kind != OpKind::For || op->get(attr::numStages, options.numStages) < 2)
      continue;
    size_t before = b.ops.size();
    if (LoopPrefetcher(m, *op, target, options, blocks, trips).run())
      i += b.ops.size() - before;
  }
}

} // namespace

void prefetchLoads(Module &m, const TargetInfo &target, const Options &options, unsigned blocks,
                   const LaunchFacts *facts, LaunchForms *asked) {
  Trips trips(*m.kernel(), options, facts, asked);
  visit(m, *m.kernel()->block(), target, options, blocks, trips);
}

} // namespace tegula::gpu
