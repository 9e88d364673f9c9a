// See ShareTables.h.
#include "gpu/shared/ShareTables.h"
#include "gpu/BlockEdit.h"
#include "gpu/shared/AllocateShared.h"
#include "gpu/shared/SharedNeeds.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "layout/Constructors.h"
#include <algorithm>
#include <map>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Shared memory that a block may take without fewer blocks on a multiprocessor: a sixteenth.
constexpr uint64_t little = 14 * 1024;

Block *blockOf(const Value *v) { return v->def ? v->def->parent : v->block; }

/// A table, and the gathers of it in the order of the text.
struct Table {
  Value *values;
  std::vector<Op *> gathers;
};

class TableSharer {
public:
  explicit TableSharer(Module &m) : m_(m), b_(m) {
    b_.setFolding(false);
    find(*m.kernel()->block());
    std::erase_if(tables_, [](const Table &t) { return t.gathers.size() == 1 && !runsAgain(t); });
  }

  bool any() const { return !tables_.empty(); }

  void share() {
    for (const Table &t : tables_)
      share(t);
  }

private:
  void find(const Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::Gather && canBeTile(*op))
        gatherOf(*op);
      for (const Region *r : op->regions)
        find(*r->block);
    }
  }

  void gatherOf(Op &gather) {
    Value *values = gather.operands[0];
    const auto [at, isNew] = places_.emplace(values, tables_.size());
    if (isNew)
      tables_.push_back({values, {}});
    tables_[at->second].gathers.push_back(&gather);
  }

  /// The operation of the block `outer` that contains `gather` (or is `gather`). Calls `fn` with each enclosing
  /// operation up to it.
  template <typename Fn> static const Op *placeIn(const Block *outer, const Op &gather, const Fn &fn) {
    const Op *place = &gather;
    for (; place->parent != outer; fn(*place))
      place = place->parent->parent->op;
    return place;
  }

  /// Warps of partitions synchronize at their own barriers, in which the warps that store the table before do not take
  /// part.
  static bool canBeTile(const Op &gather) {
    const Type &t = gather.operands[0]->type;
    bool isParted = false;
    placeIn(blockOf(gather.operands[0]), gather,
            [&](const Op &around) { isParted |= around.kind == OpKind::Partitions; });
    return !isParted && !t.isShared && !t.isPtr && bitWidth(t.elem) >= 8;
  }

  /// Is the gather in a loop that does not contain its table?
  static bool runsAgain(const Table &t) {
    bool isLooped = false;
    placeIn(blockOf(t.values), *t.gathers[0],
            [&](const Op &around) { isLooped |= around.kind == OpKind::For || around.kind == OpKind::While; });
    return isLooped;
  }

  void share(const Table &table) {
    Block &b = *blockOf(table.values);
    const Op *first = placeIn(&b, *table.gathers[0], [](const Op &) {});
    const Type &t = table.values->type;
    const uint16_t rows = m_.internLayout(layout::sharedLinear(t.shape, rowMajor(t.shape.rank())));
    Block here;
    b_.setBlock(&here);
    b_.setLoc(first->loc);
    b_.setInlinedAt(first->inlinedAt);
    Value *tile = b_.create1(OpKind::ToShared, {table.values}, Type::shared(t.shape, t.elem, rows));
    splice(here, b, positionOf(b, first));
    for (Op *gather : table.gathers)
      gather->operands[0] = tile;
  }

  static std::vector<int64_t> rowMajor(unsigned rank) {
    std::vector<int64_t> order;
    while (rank-- > 0)
      order.push_back(rank);
    return order;
  }

  Module &m_;
  Builder b_;
  std::vector<Table> tables_;
  std::map<const Value *, size_t> places_;
};

uint64_t sharedBytes(Module &m, const TargetInfo &target, const Options &options) {
  allocateShared(m, target, options);
  uint64_t end = 0;
  for (const auto &[op, place] : mostShared(*m.kernel()->block()))
    end = std::max(end, place.end);
  return end;
}

} // namespace

void shareTables(Module &m, const TargetInfo &target, const Options &options) {
  TableSharer tables(m);
  if (!tables.any())
    return;
  const std::unique_ptr<Module> before = clone(m), after = clone(m);
  TableSharer(*after).share();
  if (sharedBytes(*after, target, options) <= std::max(little, sharedBytes(*before, target, options)))
    tables.share();
}

} // namespace tegula::gpu
