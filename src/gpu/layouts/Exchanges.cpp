// See Exchanges.h. Steps decides which loops to unroll, Writer rewrites the kernel.
#include "gpu/layouts/Exchanges.h"
#include "gpu/LoopSlice.h"
#include "gpu/layouts/IndexBits.h"
#include "gpu/layouts/WidenKeys.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

namespace {

/// The most elements of a thread that the exchanges of one loop nest may move. Beyond that the loops stay, as the
/// assembler takes more than linear time for straight-line code.
constexpr uint64_t mostMoved = 6144;

// ---- which loops

/// The loops from whose counters gathers compute the constant of `position ^ constant`.
class Steps {
public:
  explicit Steps(const Block &kernel) { block(kernel); }
  bool any() const { return hasExchange_; }
  bool contains(const Op *loop) const { return loops_.contains(loop); }

private:
  struct Leaves {
    std::unordered_set<const Op *> loops;
    std::unordered_set<const Value *> seen;
  };

  void block(const Block &b) {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::For)
        counters_[op->region(0)->args[0]] = op;
      if (op->kind == OpKind::Gather)
        if (Leaves leaves;
            op->operands[0]->type.shape == op->operands[1]->type.shape && isFixed(op->operands[1], leaves)) {
          hasExchange_ = true;
          loops_.insert(leaves.loops.begin(), leaves.loops.end());
        }
      for (const Region *r : op->regions)
        block(*r->block);
    }
  }

  /// Does `v` depend only on constants and on counters of loops whose bounds and steps are such values themselves? Adds
  /// those loops to `leaves`.
  bool isFixed(const Value *v, Leaves &leaves) const {
    if (!leaves.seen.insert(v).second)
      return true; // or the answer is no already
    auto areFixed = [&](std::span<Value *const> values) {
      for (const Value *o : values)
        if (!isFixed(o, leaves))
          return false;
      return true;
    };
    if (!v->def) {
      auto it = counters_.find(v);
      return it != counters_.end() &&
             (!leaves.loops.insert(it->second).second || areFixed(std::span(it->second->operands).first(3)));
    }
    const Op &op = *v->def;
    return op.kind == OpKind::Const || op.kind == OpKind::Range ||
           ((op.has(traits::Elementwise) || op.has(traits::Shape)) && op.results.size() == 1 && v->type.isIntLike() &&
            areFixed(op.operands));
  }

  std::unordered_map<const Value *, const Op *> counters_;
  std::unordered_set<const Op *> loops_;
  bool hasExchange_ = false;
};

// ---- which distance

/// d if the gather takes element i ^ d of its axis for element i.
std::optional<uint32_t> distanceOf(const Op &gather, IndexBits &bits) {
  const Type &t = gather.operands[0]->type;
  if (t.shape != gather.operands[1]->type.shape)
    return std::nullopt;
  const std::optional<BitMap> &index = bits.of(gather.operands[1]);
  auto axis = static_cast<unsigned>(gather.axis());
  if (!index || index->constant >= static_cast<uint64_t>(t.shape[axis]))
    return std::nullopt;
  unsigned bit = 0;
  for (unsigned d = t.shape.rank(); d-- > 0;)
    for (unsigned i = 0; i < layout::log2Exact(t.shape[d]); ++i)
      if (index->images[bit++] != (d == axis ? 1u << i : 0))
        return std::nullopt;
  return index->constant;
}

// ---- the kernel anew

class Writer {
public:
  Writer(const Steps &steps, Module &to, unsigned threads) : steps_(steps), b_(to), map_(to), threads_(threads) {}

  void block(const Block &from, Block &to) {
    map_.copyArgs(from, to);
    for (const Op *op : from.ops)
      write(*op, to);
  }

private:
  void write(const Op &op, Block &to) {
    if (op.kind == OpKind::For && steps_.contains(&op) && !rolled_.contains(&op) && unroll(op, to))
      return;
    if (op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::If) {
      map_.copy(op, to, [this](const Block &from, Block &b) { block(from, b); });
      return;
    }
    // Inside unrolled loops, the counters fold to constants.
    if (depth_ && op.has(traits::Pure) && op.results.size() == 1 && op.regions.empty()) {
      b_.setBlock(&to);
      b_.setLoc(op.loc);
      b_.setInlinedAt(op.inlinedAt);
      std::vector<Value *> operands;
      for (const Value *v : op.operands)
        operands.push_back(map_(v));
      Value *now = fold(b_, op.kind, operands, op.result()->type, op.attrs);
      if (!now)
        now = b_.create(op.kind, operands, std::span(&op.result()->type, 1), op.attrs)->result();
      if (now->name.empty())
        now->name = op.result()->name;
      map_.map(op.result(), now);
    } else {
      map_.copy(op, to);
    }
    if (op.kind == OpKind::Gather)
      exchange(op);
  }

  /// Turns the gather that has just been written into an exchange.
  void exchange(const Op &op) {
    Op *gather = map_(op.result())->def;
    std::optional<uint32_t> distance =
        gather && gather->kind == OpKind::Gather ? distanceOf(*gather, bits_) : std::nullopt;
    if (!distance)
      return;
    Value *x = gather->operands[0];
    moved_ += std::max<uint64_t>(1, static_cast<uint64_t>(x->type.numel()) / threads_);
    if (*distance == 0)
      return map_.map(op.result(), x);
    gather->kind = OpKind::Exchange;
    gather->operands.pop_back();
    gather->set(attr::distance, *distance);
  }

  /// Returns false, and writes nothing, if the loop should stay rolled.
  bool unroll(const Op &op, Block &to) {
    std::optional<int64_t> from = constantInt(map_(op.operands[0])), end = constantInt(map_(op.operands[1])),
                           step = constantInt(map_(op.operands[2]));
    if (!from || !end || !step || *step <= 0)
      return false;
    size_t written = to.ops.size();
    uint64_t moved = moved_;
    const Block &body = *op.region(0);
    std::vector<Value *> carried;
    for (size_t i = 3; i < op.operands.size(); ++i)
      carried.push_back(map_(op.operands[i]));
    bool isSmall = true;
    ++depth_;
    const bool down = isReverse(op);
    for (int64_t i = *from; (down ? i > *end : i < *end) && isSmall; i += down ? -*step : *step) {
      b_.setBlock(&to);
      map_.map(body.args[0], b_.constInt(body.args[0]->type, i));
      for (size_t k = 0; k < carried.size(); ++k)
        map_.map(body.args[1 + k], carried[k]);
      uint64_t before = moved_;
      for (size_t k = 0; k + 1 < body.ops.size(); ++k)
        write(*body.ops[k], to);
      for (size_t k = 0; k < carried.size(); ++k)
        carried[k] = map_(body.terminator()->operands[k]);
      isSmall = moved_ > before && moved_ - moved <= mostMoved;
    }
    --depth_;
    if (!isSmall) {
      rolled_.insert(&op);
      moved_ = moved;
      to.ops.resize(written);
      return false;
    }
    for (size_t k = 0; k < carried.size(); ++k)
      map_.map(op.results[k], carried[k]);
    return true;
  }

  const Steps &steps_;
  Builder b_;
  Cloner map_;
  IndexBits bits_;
  unsigned threads_, depth_ = 0; // depth_: unrolled loops around what is written
  uint64_t moved_ = 0;
  std::unordered_set<const Op *> rolled_;
};

} // namespace

std::unique_ptr<Module> findExchanges(const Module &module, unsigned threads) {
  const Function &kernel = *module.kernel();
  Steps steps(*kernel.block());
  if (!steps.any())
    return nullptr;
  auto out = std::make_unique<Module>();
  out->sources = module.sources;
  out->inlineSites = module.inlineSites;
  out->layouts = module.layouts;
  Function *now = out->createFunction(kernel.name, {}, kernel.resultTypes, kernel.loc);
  now->isKernel = true;
  now->argInfo = kernel.argInfo;
  Writer(steps, *out, threads).block(*kernel.block(), *now->block());
  widenKeys(*out);
  return out;
}

} // namespace tegula::gpu
