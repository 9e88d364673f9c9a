// See LoopObstacles.h.
#include "gpu/loops/LoopObstacles.h"
#include "gpu/BlockEdit.h"
#include "gpu/Diagnostics.h"
#include "gpu/Dots.h"
#include "gpu/ProgramDependence.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

/// " (line 12)", or nothing if the location is unknown.
static std::string lineOf(const Op &op) {
  return op.loc ? " (line " + std::to_string(op.loc.file->lineCol(op.loc.begin).line) + ")" : "";
}

static bool hasDot(const Block &b) {
  return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) {
    return op->kind == OpKind::Dot ||
           (op->kind == OpKind::If &&
            std::any_of(op->regions.begin(), op->regions.end(), [](const Region *r) { return hasDot(*r->block); }));
  });
}

static bool hasAsyncDot(const Block &b) {
  return std::ranges::any_of(b.ops, [](const Op *op) {
    return op->kind == OpKind::Dot
               ? isAsyncMma(*op)
               : op->kind == OpKind::If &&
                     std::ranges::any_of(op->regions, [](const Region *r) { return hasAsyncDot(*r->block); });
  });
}

int64_t stagesOf(const Op &loop, const Options &options) {
  const int64_t asked = loop.get(attr::numStages, options.numStages);
  return asked < 2 && !loop.find(attr::numStages) && hasAsyncDot(*loop.region(0)) ? 2 : asked;
}

bool hasDot(const Op &loop) { return hasDot(*loop.regions.back()->block); }

/// Adds the arguments whose memory the block and its regions load; -1: the memory is unknown.
static void loaded(const Block &b, std::unordered_set<int> &out) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::Load || op->kind == OpKind::DescLoad)
      out.insert(memoryOf(op->operands[0]));
    for (const Region *r : op->regions)
      loaded(*r->block, out);
  }
}

/// Does anything in its block use the result?
static bool isRead(const Op &op) {
  return std::any_of(op.parent->ops.begin(), op.parent->ops.end(),
                     [&](const Op *user) { return uses(*user, op.result()); });
}

/// The obstacle in the body, or in a branch of it. Stores to memory that no iteration loads are none: accesses through
/// different arguments are assumed not to alias. An atomic operation whose result is read may synchronize later loads.
static std::optional<std::string> obstacleOf(const Block &b, const std::unordered_set<int> &loaded, bool isBranch) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::Dot && isBranch)
      return "its body has a dot in a branch" + lineOf(*op);
    if (op->kind == OpKind::Reduce || op->kind == OpKind::Scan)
      continue;
    if (!op->regions.empty() && op->kind != OpKind::If)
      return "its body has a loop inside" + lineOf(*op);
    for (const Region *r : op->regions)
      if (std::optional<std::string> reason = obstacleOf(*r->block, loaded, true))
        return reason;
    if (!op->has(traits::Writes) || op->kind == OpKind::Assume)
      continue;
    bool addsUnread = (op->kind == OpKind::AtomicRmw && !isRead(*op)) || op->kind == OpKind::DescReduce;
    if (op->kind != OpKind::Store && op->kind != OpKind::DescStore && !addsUnread)
      return "loads of later iterations must not come before what its body does" + lineOf(*op);
    if (int to = memoryOf(op->operands[0]); to < 0 || loaded.count(to) || loaded.count(-1))
      return "its body writes memory" + lineOf(*op) + ", which may be what a later iteration loads";
  }
  return std::nullopt;
}

std::optional<std::string> obstacleOfLoop(const Op &loop) {
  if (loop.kind == OpKind::While)
    return "whether a `while` loop goes on is known only at the end of an iteration";
  const Block &body = *loop.regions[0]->block;
  std::unordered_set<int> from;
  loaded(body, from);
  return obstacleOf(body, from, false);
}

/// Contiguous bytes that one copy moves.
static int64_t copyBytes(const Op &load) { return load.vec() * byteWidth(load.result()->type.elem); }

bool needsProxyFence(const Op &load) { return load.kind == OpKind::Load && copyBytes(load) != 16; }

std::optional<std::string> obstacleOfCopyBeside(const Op &load) {
  const Type &t = load.result()->type;
  if (t.isPtr || t.elem == Elem::I1)
    return "its elements are " + std::string(t.isPtr ? "pointers" : "truth values");
  if (load.isVolatile())
    return "it is volatile";
  if (int64_t bytes = copyBytes(load); bytes != 4 && bytes != 8 && bytes != 16)
    return "a copy moves 4, 8 or 16 consecutive bytes, " + std::to_string(bytes) +
           " at a time are known to be consecutive and aligned here";
  return std::nullopt;
}

std::optional<std::string> obstacleOfCopy(const Op &load) {
  if (load.kind == OpKind::DescLoad)
    return load.find(attr::merged) ? std::optional<std::string>("its rows are copied one by one") : std::nullopt;
  if (std::optional<std::string> reason = obstacleOfCopyBeside(load))
    return reason;
  if (load.operands.size() > 2 && !isZero(load.operands[2]))
    return "a copy writes 0 where the mask is off, and `other` is not known to be 0";
  return std::nullopt;
}

bool goesThroughTiles(const Op &loop) {
  if (loop.kind != OpKind::For)
    return loop.kind == OpKind::While;
  ProgramDependence depends;
  return depends.of(loop.operands[0]) || depends.of(loop.operands[2]);
}

// ---- remarks

LoopRemarks::LoopRemarks(const Op &loop, const Options &options, DiagEngine *diag)
    : loop_(loop),
      diag_((hasDot(loop) || loop.find(attr::numStages)) && loop.get(attr::numStages, options.numStages) >= 2
                ? diag
                : nullptr) {}

void LoopRemarks::notPipelined(const std::string &reason) const {
  if (diag_)
    diag_->report(diag::notPipelined, loop_.loc, reason);
}

void LoopRemarks::notCopied(const Op &load, const std::string &reason) const {
  if (diag_)
    diag_->report(diag::notCopiedAhead, load.loc, reason);
}

void LoopRemarks::notComputedAhead(const Op &load) const {
  if (!diag_)
    return;
  // The first operation on the way that is not arithmetic.
  std::unordered_set<const Op *> seen;
  const Op *culprit = nullptr;
  auto walk = [&](auto &&self, const Value *v) -> void {
    if (!v->def && v->block == load.parent && v->index)
      v = load.parent->terminator()->operands[v->index - 1];
    const Op *op = v->def;
    if (culprit || !op || op->parent != load.parent || !seen.insert(op).second)
      return;
    if (!op->has(traits::Pure) || op->kind == OpKind::Dot || !op->regions.empty()) {
      culprit = op;
      return;
    }
    for (const Value *o : op->operands)
      self(self, o);
  };
  for (const Value *v : load.operands)
    walk(walk, v);
  std::string what = !culprit                                                             ? "more than arithmetic"
                     : culprit->kind == OpKind::Load || culprit->kind == OpKind::DescLoad ? "a load"
                                                                                          : "more than arithmetic";
  notCopied(load, "its addresses or its mask depend on " + what + (culprit ? lineOf(*culprit) : "") +
                      " of the same iteration");
}

void LoopRemarks::otherLoads(const std::vector<Op *> &loadsOfDots) const {
  for (const Op *op : loop_.regions[0]->block->ops)
    if (loop_.find(attr::numStages) && (op->kind == OpKind::Load || op->kind == OpKind::DescLoad) &&
        op->result()->type.isTensor() && std::find(loadsOfDots.begin(), loadsOfDots.end(), op) == loadsOfDots.end())
      notCopied(*op, "no dot is computed from it");
}

void LoopRemarks::shortOfMemory(int64_t iterations, int64_t wanted, uint64_t needed, uint64_t limit) const {
  if (!diag_)
    return;
  if (iterations > 0)
    diag_->report(diag::fewerStages, loop_.loc, iterations + 1, wanted + 1, needed, limit);
  else
    notPipelined("that takes " + std::to_string(needed) + " bytes of shared memory at least, a block has " +
                 std::to_string(limit));
}

} // namespace tegula::gpu
