// See SpecializeWarps.h. Specializer decides for the whole kernel, builds the producer from the inputs of its copies,
// and rewrites the loops.
#include "gpu/loops/SpecializeWarps.h"
#include "gpu/BlockEdit.h"
#include "gpu/Diagnostics.h"
#include "gpu/Layouts.h"
#include "gpu/Work.h"
#include "gpu/loops/PipelinedLoop.h"
#include "gpu/loops/ProducerPart.h"
#include "gpu/shared/BlockStores.h"
#include "gpu/shared/SharedNeeds.h"
#include "gpu/shared/Tiles.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

namespace {

using Map = LoopSlice::Map;
using Reason = std::optional<std::string>;

/// The state of a set of rings: the next stage, and the parity of its phase.
struct Stages {
  Value *slot, *phase;
};

/// Rings that one or several loops use, and the mbarriers of their stages.
struct RingSet {
  std::vector<Type> tiles;
  std::vector<bool> late;
  unsigned stages;
  std::array<bool, 2> hasSpare = {}; // as StageBarrierCounts
  std::vector<Value *> memory{};
  StageBarriers barriers{};

  bool hasLate() const { return std::find(late.begin(), late.end(), true) != late.end(); }
};

class ConsumerLoop : public PipelinedLoop {
public:
  using PipelinedLoop::hasSpare;
  using PipelinedLoop::leaveLate;

  /// `gathers`: the producer's threads copy, instead of starting block copies.
  ConsumerLoop(ir::Module &m, ir::Op &loop, const TargetInfo &target, const Options &options, bool gathers)
      : PipelinedLoop(m, loop, target, options, nullptr) {
    gathers_ = gathers;
  }

  /// After plan(): can a producer start all copies, either as block copies or all by its threads?
  bool isFilledByProducer() const {
    return hasStages() && !usesGroups() && (!gathers_ || !anyRing([](const Ring &r) {
             return r.inStages &&
                    (r.source->kind == OpKind::DescLoad || (r.feedsAsyncDot && needsProxyFence(*r.source)));
           }));
  }
  std::vector<Type> tiles() const {
    std::vector<Type> out;
    for (const Ring &r : rings_)
      if (r.inStages)
        out.push_back(r.tile);
    return out;
  }
  /// Which of tiles() are late.
  std::vector<bool> late() const {
    std::vector<bool> out;
    for (const Ring &r : rings_)
      if (r.inStages)
        out.push_back(r.isLate);
    return out;
  }
  /// Remarks if the loop has fewer stages than it asks for. `total`: bytes that the kernel takes with its stages.
  void remarkStages(uint64_t total, DiagEngine *remarks) const {
    const int64_t asked = stagesOf(loop_, options_), missing = asked - stages();
    if (missing <= 0)
      return;
    uint64_t stage = 16; // its barriers
    for (const Type &t : tiles())
      stage += slotBytes(t);
    LoopRemarks(loop_, options_, remarks)
        .shortOfMemory(stages() - 1, asked - 1, total + static_cast<uint64_t>(missing) * stage, target_.sharedLimit());
  }
  /// Is the operation's tile in a ring?
  bool holds(const Op &op) { return ringOfTile(op.result()); }
  uint64_t bytesOfOtherRings() const {
    uint64_t bytes = 0;
    for (const Ring &r : rings_)
      bytes += r.inStages ? 0 : slotBytes(r.tile) * r.slots;
    return bytes;
  }

  /// Is a tile the same in all CTAs of the cluster?
  bool hasShared(unsigned ctas) const {
    return anyRing([&](const Ring &r) { return isShared(r, ctas); });
  }

  void use(const RingSet &set, unsigned ctas) {
    barriers_ = set.barriers;
    ctas_ = ctas;
    size_t i = 0;
    for (Ring &r : rings_)
      if (r.inStages)
        r.memory = set.memory[i++];
  }

  /// Appends the copies of one iteration to `to`.
  void produce(Block *to, Stages at, Value *freePhase, const std::function<Value *(Value *)> &of) {
    b_.setBlock(to);
    b_.setLoc(loop_.loc);
    b_.setInlinedAt(loop_.inlinedAt);
    fillStage(at.slot, freePhase, of);
  }
  Stages next(Block *to, Stages at) {
    b_.setBlock(to);
    return {nextSlot(at.slot, stages_, 1), flip(at.phase, at.slot, stages_)};
  }

  /// Rewrites the loop, whose first stage is `from`; returns the stage after its last one.
  Stages consume(Stages from) {
    Block before, top, end, after;
    before.parent = after.parent = loop_.parent->parent;
    top.parent = end.parent = body_.parent;
    b_.setLoc(loop_.loc);
    b_.setInlinedAt(loop_.inlinedAt);
    b_.setBlock(&before);
    for (Ring &r : rings_)
      if (!r.inStages)
        r.memory = b_.create1(OpKind::SharedAlloc, {}, r.tile, {{attr::slots, r.slots}});
    carryStages(from.slot, from.phase);
    splice(before, *loop_.parent, placeOfPrologue());
    insertWaits();
    b_.setLoc(loop_.loc);
    b_.setBlock(&top);
    waitFor(barriers_.full, slot_[stages_], phase_, false);
    size_t at = top.ops.size();
    splice(top, body_, 0);
    useRings(at);
    waitForLate();
    releaseBehindWait();
    b_.setBlock(&end);
    nextStage();
    splice(end, body_, body_.ops.size() - 1);
    b_.setBlock(&after);
    releaseLastStage();
    splice(after, *loop_.parent, placeBehind());
    loop_.set(attr::pipelined, true);
    return {resultOf(slot_[stages_]), resultOf(phase_)};
  }
};

class Specializer {
public:
  /// `gathers`: all threads of the producer copy; else one of them starts block copies.
  Specializer(Module &m, const TargetInfo &target, const Options &options, bool gathers)
      : m_(m), f_(*m.kernel()), target_(target), options_(options), b_(m), gathers_(gathers),
        producer_(gathers ? target.gatheringWarps(options) : target.producerWarps(options)) {
    b_.setFolding(false);
    collect(*f_.block(), 0);
  }

  /// Does a loop ask for it (block copies only), or does it pay and no loop forbids it?
  bool isWanted() const { return (asked_ && !gathers_) || (pays_ && !forbidden_); }
  bool isAsked() const { return asked_; }
  /// A loop that asks although no producer pays there; null: there is none.
  const Op *declined() const { return asked_ ? nullptr : declined_; }
  Loc where() const { return asked_ ? asked_->loc : f_.loc; }

  /// Why the kernel cannot be rewritten; empty: everything is planned.
  Reason plan();
  /// After a successful plan(): remarks for loops whose rings got fewer stages.
  void remarkStages(DiagEngine *remarks) const {
    for (const auto &loop : loops_)
      loop->remarkStages(total_, remarks);
  }
  void rewrite();

private:
  bool hasNeighbour(const Block &body) const;
  bool gatheringPays(const Block &body) const;
  bool isLeftToNeighbours(const Block &body, unsigned depth) const;
  void collect(const Block &b, unsigned depth);
  Reason findLoops(Block &b);
  const Op *lastLoop() const;
  Reason checkEffects(const Block &b, const std::vector<int> &loaded) const;
  Reason checkCluster() const;
  Reason fit();
  uint64_t ringBytes() const;

  // ---- the producer's part of the kernel
  void emit(const Block &from, Map &map, std::vector<Stages> &at);
  void emitLoop(const Op &op, Map &map, std::vector<Stages> &at);
  void emitBranch(const Op &op, Map &map, std::vector<Stages> &at);

  void consume(Block &b, std::vector<Stages> &at);
  void consumeBranch(Op &op, std::vector<Stages> &at);

  Module &m_;
  Function &f_;
  const TargetInfo &target_;
  const Options &options_;
  Builder b_;
  const bool gathers_;
  const ProducerWarps producer_;
  const Op *asked_ = nullptr, *declined_ = nullptr;
  bool pays_ = false, forbidden_ = false;
  std::vector<std::unique_ptr<ConsumerLoop>> loops_;
  std::unordered_map<const Op *, size_t> loopOf_; // index into loops_
  std::unordered_set<const Op *> path_;           // Fors that are such loops, Fors and Ifs that contain one
  ProducerPart part_{m_, gathers_, producer_.warps, path_};
  std::vector<RingSet> sets_;
  uint64_t total_ = 0; // bytes of shared memory with those rings
  std::vector<size_t> setOf_; // of each loop
};

bool hasDotInside(const Block &b) {
  return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) {
    return op->kind == OpKind::Dot ||
           std::any_of(op->regions.begin(), op->regions.end(), [](const Region *r) { return hasDotInside(*r->block); });
  });
}

int64_t dotsIn(const Block &b) {
  return std::count_if(b.ops.begin(), b.ops.end(), [](const Op *op) { return op->kind == OpKind::Dot; });
}

/// Do the results of the loop's dots fit in registers with two blocks on an SM? Then each block computes while the
/// other's dots run, as warpgroups beside a producer do, and no dedicated warp is needed.
bool Specializer::hasNeighbour(const Block &body) const {
  const int64_t threads = int64_t{target_.lanes()} * options_.numWarps;
  return registersOfDots(body, threads) <= target_.registerLimit(static_cast<unsigned>(2 * threads));
}

/// Does a producer whose threads copy pay? It takes registers from the consumers, but frees their issue slots and saves
/// the barrier in the loop. As measured on an H200 with attention by pointers (docs/performance-history.md): 1.04-1.34
/// times the speed where elementwise work, without addresses and masks of copies, takes up to 1.3 times as long as the
/// products (D=96 to 256), 0.86-0.96 of it where it takes longer.
bool Specializer::gatheringPays(const Block &body) const {
  if (options_.numWarps < 8 || options_.numCtas > 1 || hasNeighbour(body))
    return false;
  const Clocks clocks = clocksWithout(loadsOfDots(body), body, target_, options_.numWarps);
  return clocks.work <= 1.3 * clocks.products;
}

/// Is the loop left alone although it asks? The warpgroups of two blocks hide each other's waits, and leave no
/// registers for a producer: attention D=64, 128x64 by eight warps, H200: 382 TFLOP/s with a producer and one block,
/// 476 without and two (by four warps 465 and 456).
bool Specializer::isLeftToNeighbours(const Block &body, unsigned depth) const {
  return depth == 0 && options_.numWarps >= 8 && options_.numCtas == 1 && dotsIn(body) > 1 && hasNeighbour(body);
}

/// Collects the requests of loops, and whether a producer pays. It does in loops over tiles with at least one
/// warpgroup, and with two warpgroups in loops whose second dot waits for work on the result of the first (attention),
/// as measured on an H200 (docs/performance-history.md).
void Specializer::collect(const Block &b, unsigned depth) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::For) {
      if (op->find(attr::warpSpecialize)) {
        if (!op->warpSpecialize())
          forbidden_ = true;
        else if (isLeftToNeighbours(*op->region(0), depth))
          declined_ = declined_ ? declined_ : op;
        else
          asked_ = asked_ ? asked_ : op;
      }
      int64_t dots = dotsIn(*op->region(0));
      pays_ |= gathers_ ? dots == 2 && gatheringPays(*op->region(0))
                        : ((depth > 0 || (options_.numCtas > 1 && !op->splitParts())) && dots > 0 &&
                           options_.numWarps >= 4) ||
                              (dots > 1 && options_.numWarps >= 8 && !hasNeighbour(*op->region(0)));
    }
    for (const Region *r : op->regions)
      collect(*r->block, depth + (op->kind == OpKind::For));
  }
}

Reason Specializer::findLoops(Block &b) {
  for (Op *op : b.ops) {
    if (op->regions.empty() || op->kind == OpKind::Reduce || op->kind == OpKind::Scan)
      continue;
    bool hasDots =
        std::any_of(op->regions.begin(), op->regions.end(), [](const Region *r) { return hasDotInside(*r->block); });
    if (!hasDots)
      continue;
    if (op->kind == OpKind::If) {
      // The branch is uniform, and the producer takes it, too. Dots outside of loops are left to the consumers.
      const size_t before = loops_.size();
      for (const Region *r : op->regions)
        if (Reason reason = findLoops(*r->block))
          return reason;
      if (loops_.size() > before)
        path_.insert(op);
      continue;
    }
    if (op->kind != OpKind::For)
      return "a dot stands in a while loop";
    path_.insert(op);
    Block &body = *op->region(0);
    if (!dotsIn(body) || std::any_of(body.ops.begin(), body.ops.end(), [](const Op *o) {
          return o->kind == OpKind::For && hasDotInside(*o->region(0));
        })) {
      const size_t before = loops_.size();
      if (Reason r = findLoops(body))
        return r;
      if (loops_.size() == before)
        return "a loop has dots in branches only";
      continue;
    }
    auto loop = std::make_unique<ConsumerLoop>(m_, *op, target_, options_, gathers_);
    if (stagesOf(*op, options_) < 2 || !loop->plan() || !loop->isFilledByProducer())
      return "a loop with dots has loads that TMA cannot do, or that cannot be started early";
    loopOf_[op] = loops_.size();
    loops_.push_back(std::move(loop));
  }
  return std::nullopt;
}

bool loads(const Op &op) {
  return op.kind == OpKind::Load || std::any_of(op.regions.begin(), op.regions.end(), [](const Region *r) {
           return std::any_of(r->block->ops.begin(), r->block->ops.end(), [](const Op *o) { return loads(*o); });
         });
}

/// Copies run ahead of all operations of the consumers, so the memory that they read must not change.
Reason Specializer::checkEffects(const Block &b, const std::vector<int> &loaded) const {
  for (const Op *op : b.ops) {
    for (const Region *r : op->regions)
      if (Reason reason = checkEffects(*r->block, loaded))
        return reason;
    // The producer itself runs a while loop that computes operands of its copies.
    if ((op->kind == OpKind::Load && op->isVolatile()) || (op->kind == OpKind::While && loads(*op) && !part_.has(*op)))
      return "the kernel may wait for a value that another program stores";
    // A barrier orders stores of the program's own threads, which are not to memory that loops load.
    if (!op->regions.empty() || !writesGlobal(*op) || op->kind == OpKind::Print || op->kind == OpKind::Assert ||
        (op->kind == OpKind::Barrier && options_.numCtas == 1))
      continue;
    if (op->kind != OpKind::Store && op->kind != OpKind::DescStore)
      return "the kernel has atomics, barriers or calls, which may wait for other programs";
    int to = memoryOf(op->operands[0]);
    if (to < 0 || std::find(loaded.begin(), loaded.end(), to) != loaded.end())
      return "the kernel may store to the memory that the loop loads";
  }
  return std::nullopt;
}

/// While the producer runs, the CTAs of a cluster cannot synchronize: up to the last loop, no operation may need that
/// to order memory accesses (Lowering::meet).
Reason Specializer::checkCluster() const {
  struct Access {
    const Op *op;
    int arg;
    bool writes, inLoop;
  };
  std::vector<Access> accesses;
  bool exchanges = false;
  auto collect = [&](auto &&self, const Block &b, bool inLoop) -> void {
    auto last = std::find_if(b.ops.rbegin(), b.ops.rend(), [&](const Op *op) { return path_.count(op); }).base();
    for (auto it = b.ops.begin(); it != (b.parent->op ? b.ops.end() : last); ++it) {
      const Op *op = *it;
      // The accesses of a while loop are unknown after it.
      exchanges |= op->kind == OpKind::ClusterGather || op->kind == OpKind::SmId || op->kind == OpKind::While;
      bool writes = op->kind == OpKind::Store || op->kind == OpKind::DescStore;
      if (writes || op->kind == OpKind::Load || op->kind == OpKind::DescLoad)
        accesses.push_back({op, memoryOf(op->operands[0]), writes, inLoop});
      for (const Region *r : op->regions)
        self(self, *r->block, inLoop || op->kind == OpKind::For);
    }
  };
  collect(collect, *f_.block(), false);
  if (exchanges)
    return "the CTAs of its cluster may have to synchronize while it runs";
  auto isTile = [](const Access &a) { return a.op->kind == OpKind::DescStore && a.op->tiled(); };
  auto isOrdered = [&](const Access &a, const Access &b) {
    bool isSameMemory = a.arg < 0 || b.arg < 0 || a.arg == b.arg, isWhole = a.op->whole() && b.op->whole();
    if (&a == &b)
      return a.inLoop && !isTile(a);
    return isWhole || (isSameMemory && !(isTile(a) && isTile(b) && haveSameBlocks(*a.op, *b.op)));
  };
  for (const Access &a : accesses)
    for (const Access &b : accesses) // rings and tiles that are created later wait for plain stores
      if (a.op->kind == OpKind::Store || (a.writes && isOrdered(a, b)))
        return "the CTAs of its cluster must order their memory accesses";
  return std::nullopt;
}

uint64_t Specializer::ringBytes() const {
  uint64_t bytes = 0;
  for (const RingSet &s : sets_) {
    for (const Type &t : s.tiles)
      bytes += slotBytes(t) * s.stages;
    bytes += StageBarrierCounts{.stages = s.stages, .hasLate = s.stages <= 2, .hasSpare = {true, true}}.bytes();
  }
  return bytes;
}

/// The operation after which the rings are dead: the last one that contains loops of the path, in the innermost block
/// around all of them that is in no loop (the same rule as in Tiles.h).
const Op *Specializer::lastLoop() const {
  const Op *last = nullptr;
  for (const Block *b = f_.block(); b;) {
    auto inPath = [&](const Op *op) { return path_.count(op) > 0; };
    last = *std::find_if(b->ops.rbegin(), b->ops.rend(), inPath);
    b = nullptr;
    if (last->kind == OpKind::If) {
      const bool both = std::ranges::all_of(
          last->regions, [&](const Region *r) { return std::ranges::any_of(r->block->ops, inPath); });
      for (const Region *r : last->regions)
        if (!both && std::ranges::any_of(r->block->ops, inPath))
          b = r->block;
    }
  }
  return last;
}

/// Assigns rings to loops. Loops with tiles of the same sizes share their rings (keys by rows of a cache, then
/// transposed). If memory is short, the deepest rings lose stages.
Reason Specializer::fit() {
  constexpr uint64_t leastScratch = 1024;
  uint64_t others = leastScratch, limit = target_.sharedLimit();
  for (const auto &loop : loops_) {
    std::vector<Type> tiles = loop->tiles();
    auto it = std::find_if(sets_.begin(), sets_.end(), [&](const RingSet &s) {
      return std::ranges::equal(s.tiles, tiles, {}, slotBytes, slotBytes);
    });
    setOf_.push_back(static_cast<size_t>(it - sets_.begin()));
    if (it == sets_.end())
      sets_.push_back({std::move(tiles), {}, loop->stages()});
    else
      it->stages = std::min(it->stages, loop->stages());
    others += loop->bytesOfOtherRings();
  }
  const Op *end = lastLoop();
  for (;;) {
    uint64_t taken = others + ringBytes();
    const BesideRings rest = besideRings(
        m_, *f_.block(), target_,
        [&](const Op &op) { return std::ranges::any_of(loops_, [&](const auto &loop) { return loop->holds(op); }); },
        [&](const Block &, uint64_t tiles) { return limit - std::min(limit, taken + tiles); }, end);
    if (!rest.isKnown)
      return "other operations of the kernel need shared memory themselves";
    total_ = taken + rest.tiles + std::max(rest.scratch, rest.buffers);
    if (total_ <= limit)
      break;
    auto deepest = std::max_element(sets_.begin(), sets_.end(),
                                    [](const RingSet &a, const RingSet &b) { return a.stages < b.stages; });
    if (deepest->stages <= 2)
      return "rings and tiles that live as long as the kernel take " + std::to_string(total_) +
             " bytes of shared memory, a block has " + std::to_string(limit);
    --deepest->stages;
  }
  for (size_t i = 0; i < loops_.size(); ++i)
    loops_[i]->setStages(sets_[setOf_[i]].stages);
  // Loops that share rings share their barriers.
  for (size_t i = 0; i < sets_.size(); ++i) {
    std::vector<ConsumerLoop *> users;
    for (size_t l = 0; l < loops_.size(); ++l)
      if (setOf_[l] == i)
        users.push_back(loops_[l].get());
    if (std::any_of(users.begin(), users.end(), [&](const ConsumerLoop *l) { return l->late() != users[0]->late(); }))
      for (ConsumerLoop *l : users)
        l->leaveLate();
    sets_[i].late = users[0]->late();
    for (const ConsumerLoop *l : users)
      for (bool late : {false, true})
        sets_[i].hasSpare[late] |= l->hasSpare()[late];
  }
  return std::nullopt;
}

Reason Specializer::plan() {
  if (!target_.copiesBlocks())
    return "the target has no TMA";
  if (options_.numWarps > 16 || !producer_.warps)
    return "there is no room for another warp";
  if (Reason r = findLoops(*f_.block()))
    return r;
  if (loops_.empty())
    return "no loop has dots";
  if (options_.numCtas > 1)
    if (Reason r = checkCluster())
      return r;
  for (const Op *op : path_)
    for (unsigned i = 0; i < (op->kind == OpKind::For ? 3u : 1u); ++i)
      if (!part_.need(op->operands[i]))
        return "the bounds of a loop, or the condition of a branch, depend on more than arithmetic on arguments";
  for (const auto &loop : loops_)
    for (const Ring &r : loop->rings())
      if (r.inStages && !std::all_of(r.source->operands.begin(), r.source->operands.end(),
                                     [&](const Value *v) { return part_.need(v); }))
        return "the offsets of a load depend on more than arithmetic on arguments and loop variables";
  std::vector<int> loaded;
  for (const auto &loop : loops_)
    for (const Ring &r : loop->rings())
      if (r.inStages)
        loaded.push_back(memoryOf(r.source->operands[0]));
  part_.addLoaded(loaded);
  if (Reason r = checkEffects(*f_.block(), loaded))
    return r;
  return fit();
}

// ---- the producer

void Specializer::emit(const Block &from, Map &map, std::vector<Stages> &at) {
  for (const Op *op : from.ops) {
    if (path_.count(op)) {
      op->kind == OpKind::If ? emitBranch(*op, map, at) : emitLoop(*op, map, at);
    } else if (part_.has(*op)) {
      part_.emit(b_, *op, map);
    }
  }
}

void Specializer::emitBranch(const Op &op, Map &map, std::vector<Stages> &at) {
  auto of = [&](Value *v) { return map.count(v) ? map[v] : v; };
  std::vector<const Value *> results;
  for (const Value *v : op.results)
    if (part_.carries(v))
      results.push_back(v);
  std::vector<Type> types;
  for (const Value *v : results)
    types.push_back(v->type);
  types.insert(types.end(), 2 * at.size(), Type::scalar(Elem::I32));
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  const Op *now = b_.ifOp(of(op.operands[0]), types);
  Block *outer = b_.block();
  for (unsigned side = 0; side < 2; ++side) {
    b_.setBlock(now->region(side));
    std::vector<Stages> inside = at;
    emit(*op.region(side), map, inside);
    std::vector<Value *> yields;
    for (const Value *v : results)
      yields.push_back(of(op.region(side)->terminator()->operands[v->index]));
    for (Stages s : inside)
      yields.insert(yields.end(), {s.slot, s.phase});
    b_.yield(yields);
  }
  b_.setBlock(outer);
  size_t n = 0;
  for (const Value *v : results)
    map[v] = now->results[n++];
  for (Stages &s : at) {
    s = {now->results[n], now->results[n + 1]};
    n += 2;
  }
}

void Specializer::emitLoop(const Op &op, Map &map, std::vector<Stages> &at) {
  auto of = [&](Value *v) { return map.count(v) ? map[v] : v; };
  const Block &old = *op.region(0);
  std::vector<Value *> inits;
  for (const Value *arg : old.args)
    if (part_.carries(arg))
      inits.push_back(of(op.operands[2 + arg->index]));
  for (Stages s : at)
    inits.insert(inits.end(), {s.slot, s.phase});
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  Op *now = b_.forOp(of(op.operands[0]), of(op.operands[1]), of(op.operands[2]), inits);
  if (isReverse(op))
    now->set(attr::reverse, true);
  Block *outer = b_.block(), *body = now->region(0);
  b_.setBlock(body);
  map[old.args[0]] = body->args[0];
  size_t n = 1;
  for (const Value *arg : old.args)
    if (part_.carries(arg))
      map[arg] = body->args[n++];
  for (Stages &s : at) {
    s = {body->args[n], body->args[n + 1]};
    n += 2;
  }
  emit(old, map, at);
  if (auto it = loopOf_.find(&op); it != loopOf_.end()) {
    Stages &s = at[setOf_[it->second]];
    // The first use of a stage does not wait: the phase before the first counts as complete.
    Value *freePhase = b_.binary(OpKind::Xor, s.phase, b_.constI32(1));
    loops_[it->second]->produce(body, s, freePhase, of);
    s = loops_[it->second]->next(body, s);
    b_.setBlock(body);
  }
  std::vector<Value *> yields;
  for (const Value *arg : old.args)
    if (part_.carries(arg))
      yields.push_back(of(old.terminator()->operands[arg->index - 1]));
  for (Stages s : at)
    yields.insert(yields.end(), {s.slot, s.phase});
  b_.yield(yields);
  b_.setBlock(outer);
  n = 0;
  for (const Value *arg : old.args)
    if (part_.carries(arg))
      map[op.results[arg->index - 1]] = now->results[n++];
  for (Stages &s : at) {
    s = {now->results[n], now->results[n + 1]};
    n += 2;
  }
}

// ---- the consumers

void Specializer::consume(Block &b, std::vector<Stages> &at) {
  for (Op *op : std::vector<Op *>(b.ops)) {
    if (auto it = loopOf_.find(op); it != loopOf_.end()) {
      Stages &s = at[setOf_[it->second]];
      s = loops_[it->second]->consume(s);
    } else if (path_.count(op) && op->kind == OpKind::If) {
      consumeBranch(*op, at);
    } else if (path_.count(op)) {
      std::vector<Stages> inside;
      for (Stages s : at) {
        Value *slot = carry(m_, *op, s.slot, "slot");
        inside.push_back({slot, carry(m_, *op, s.phase, "phase")});
      }
      std::vector<Stages> now = inside;
      consume(*op->region(0), now);
      for (size_t i = 0; i < at.size(); ++i) {
        carryOn(*op, inside[i].slot, now[i].slot);
        carryOn(*op, inside[i].phase, now[i].phase);
        at[i] = {op->results[inside[i].slot->index - 1], op->results[inside[i].phase->index - 1]};
      }
    }
  }
}

void Specializer::consumeBranch(Op &op, std::vector<Stages> &at) {
  const size_t first = op.results.size();
  for (Region *r : op.regions) {
    std::vector<Stages> now = at;
    consume(*r->block, now);
    for (Stages s : now)
      r->block->terminator()->operands.insert(r->block->terminator()->operands.end(), {s.slot, s.phase});
  }
  for (size_t i = 0; i < 2 * at.size(); ++i)
    m_.addResult(&op, Type::scalar(Elem::I32));
  for (size_t i = 0; i < at.size(); ++i)
    at[i] = {op.results[first + 2 * i], op.results[first + 2 * i + 1]};
}

void Specializer::rewrite() {
  Block before;
  before.parent = f_.block()->parent;
  b_.setBlock(&before);
  b_.setLoc(loops_.front()->loop().loc);
  b_.setInlinedAt(loops_.front()->loop().inlinedAt);
  // CTAs that fill stages together leave them together, at the end of the last loop, so there must be no other rings.
  bool shared = sets_.size() == 1 && std::any_of(loops_.begin(), loops_.end(),
                                                 [&](const auto &l) { return l->hasShared(options_.numCtas); });
  unsigned ctas = shared ? options_.numCtas : 1;
  for (RingSet &s : sets_) {
    for (const Type &t : s.tiles)
      s.memory.push_back(b_.create1(OpKind::SharedAlloc, {}, t, {{attr::slots, s.stages}}));
    s.barriers = makeStageBarriers(b_, {.stages = s.stages,
                                        .consumers = options_.numWarps,
                                        .hasLate = s.hasLate(),
                                        .hasSpare = s.hasSpare,
                                        .ctas = ctas,
                                        .fillers = gathers_ ? producer_.warps * target_.lanes() : 1});
  }
  for (size_t i = 0; i < loops_.size(); ++i)
    loops_[i]->use(sets_[setOf_[i]], ctas);
  Value *zero = b_.constI32(0);
  // Each partition has a barrier of its own; the producer's warps never reach theirs.
  Op *partitions = b_.create(OpKind::Partitions, {}, {},
                             {{attr::warps, {int64_t{options_.numWarps}, int64_t{producer_.warps}}},
                              {attr::barriers, {1, gathers_ ? 2 : 0}},
                              {attr::elected, {0, int64_t{!gathers_}}}});
  if (producer_.consumer)
    partitions->set(attr::registers, {int64_t{producer_.consumer}, int64_t{producer_.producer}});
  Block *consumer = m_.addRegion(partitions)->block, *producer = m_.addRegion(partitions)->block;
  b_.setBlock(producer);
  Map map;
  std::vector<Stages> start(sets_.size(), {zero, zero}), at = start;
  emit(*f_.block(), map, at);
  b_.setBlock(producer);
  b_.yield({});
  consume(*f_.block(), start);
  Op *end = f_.block()->terminator();
  f_.block()->ops.pop_back();
  splice(*f_.block(), *consumer, 0);
  b_.setBlock(consumer);
  b_.yield({});
  before.ops.push_back(end);
  splice(before, *f_.block(), 0);
}

} // namespace

void specializeWarps(Module &m, const TargetInfo &target, const Options &options, DiagEngine *remarks) {
  std::optional<std::pair<Loc, std::string>> refused;
  for (bool gathers : {false, true}) {
    Specializer s(m, target, options, gathers);
    if (!s.isWanted()) {
      if (s.declined() && !refused)
        refused = {s.declined()->loc, "two blocks find room on a multiprocessor, and hide more"};
      continue;
    }
    const Reason reason = s.plan();
    if (!reason) {
      s.remarkStages(remarks);
      return s.rewrite();
    }
    if (s.isAsked() && !refused)
      refused = {s.where(), *reason};
  }
  if (remarks && refused)
    remarks->report(diag::notSpecialized, refused->first, refused->second);
}

} // namespace tegula::gpu
