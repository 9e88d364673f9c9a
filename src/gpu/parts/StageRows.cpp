// See StageRows.h.
#include "gpu/parts/StageRows.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/shared/Tiles.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include "passes/ArgumentAccess.h"
#include "passes/MadeOfScalars.h"
#include "passes/Users.h"
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int64_t leastElements = 8; // of a thread: of rows, and of values that must not be held beside them

bool isSpecial(OpKind k) {
  constexpr OpKind those[] = {OpKind::Exp, OpKind::Exp2, OpKind::Log, OpKind::Log2,
                              OpKind::FDiv, OpKind::Sqrt, OpKind::Rsqrt, OpKind::Tanh};
  return std::ranges::find(those, k) != std::end(those);
}

/// Does the operation take longer than a read of its result or of its operands?
bool isLong(OpKind k) {
  constexpr OpKind those[] = {OpKind::Erf, OpKind::Sin, OpKind::Cos, OpKind::FRem, OpKind::SDiv,
                              OpKind::UDiv, OpKind::SRem, OpKind::URem, OpKind::Asm};
  return std::ranges::find(those, k) != std::end(those);
}

/// Can the operation be rematerialized where its result is used?
bool isCheap(const Op &op) {
  return op.has(traits::Elementwise) && op.has(traits::Pure) && op.results.size() == 1 && !isLong(op.kind);
}

/// Finds which loads of a kernel's block are rows, and which values are computed from them. A phase is the code between
/// two reductions of rows.
class Rows {
public:
  Rows(const Block &kernel, int64_t threads) : kernel_(kernel), threads_(threads), users_(kernel) {
    number(kernel);
    for (const Op *op : kernel.ops)
      consider(*op);
  }

  bool has(const Op *load) const { return rows_.contains(load); }
  int phaseOf(const Op *op) const { return phases_.at(op); }

  /// Is `v` computed from a row, element by element?
  bool isOfRow(const Value *v) {
    if (!v->def || !v->type.isTensor())
      return false;
    auto [it, isNew] = ofRow_.try_emplace(v, false);
    if (!isNew)
      return it->second;
    const bool is = has(v->def) || (isCheap(*v->def) &&
                                    std::ranges::any_of(v->def->operands, [&](const Value *x) { return isOfRow(x); }));
    return ofRow_[v] = is;
  }

  /// The bytes of all rows; 0: see StagedRows.
  uint64_t bytes() {
    uint64_t bytes = 0;
    int specials = 0; // special functions to rematerialize
    for (const auto &[op, phase] : phases_)
      for (const Value *v : op->results) {
        if (!v->type.isTensor() || v->type.isShared || v->type.numel() < leastElements * threads_)
          continue;
        if (has(op))
          bytes += static_cast<uint64_t>(v->type.numel() * byteWidth(v->type.elem));
        const std::set<int> &phases = usesOf(v).phases;
        if (isOfRow(v)) {
          if (isSpecial(op->kind) && phases.size() > 1)
            specials += static_cast<int>(phases.size()) - 1;
        } else if (!phases.empty() && *phases.rbegin() > phase && !isMadeOfScalars_(v) && v->type.elem != Elem::I1) {
          return 0;
        }
      }
    constexpr int mostSpecials = 1; // memory takes no longer than 16 lanes a clock
    return specials <= mostSpecials ? bytes : 0;
  }

private:
  void number(const Block &b) {
    for (const Op *op : b.ops) {
      phases_[op] = phase_;
      if (op->kind == OpKind::If)
        for (const Region *r : op->regions)
          number(*r->block);
      if (op->kind == OpKind::Reduce && op->operands[0]->type.numel() >= threads_)
        ++phase_;
    }
  }

  /// The uses of a value, and of values computed from it element by element, by other operations.
  struct Uses {
    std::set<int> phases;
    size_t first = SIZE_MAX; // position in the kernel's block
  };

  const Uses &usesOf(const Value *v) {
    auto [it, isNew] = uses_.try_emplace(v);
    Uses &uses = it->second; // references to elements of a map stay valid
    if (!isNew)
      return uses;
    for (const Op *op : users_.of(v)) {
      if (isCheap(*op) && op->results[0]->type.isTensor()) {
        const Uses &other = usesOf(op->results[0]);
        uses.phases.insert(other.phases.begin(), other.phases.end());
        uses.first = std::min(uses.first, other.first);
        continue;
      }
      if (const auto phase = phases_.find(op); phase != phases_.end())
        uses.phases.insert(phase->second);
      while (op->parent != &kernel_)
        op = op->parent->parent->op;
      uses.first = std::min(uses.first, positionOf(kernel_, op));
    }
    return uses;
  }

  void consider(const Op &load) {
    if (load.kind != OpKind::Load || load.isVolatile() || !load.result()->type.isTensor() ||
        load.result()->type.numel() < leastElements * threads_)
      return;
    const Type &t = load.result()->type;
    if (const int64_t bytes = load.vec() * byteWidth(t.elem);
        t.isPtr || t.elem == Elem::I1 || (bytes != 4 && bytes != 8 && bytes != 16))
      return;
    const Uses &uses = usesOf(load.result());
    if (uses.phases.empty() || *uses.phases.rbegin() <= phases_.at(&load))
      return;
    // The copy is read at the first use; no operation may have written to the memory in between.
    const int memory = memoryOf(load.operands[0]);
    for (size_t i = positionOf(kernel_, &load) + 1; i < uses.first; ++i)
      if (const Op &op = *kernel_.ops[i];
          writesGlobal(op) && (op.kind != OpKind::Store || memory < 0 || memoryOf(op.operands[0]) < 0 ||
                               memoryOf(op.operands[0]) == memory))
        return;
    rows_.insert(&load);
  }

  const Block &kernel_;
  const int64_t threads_;
  int phase_ = 0;
  std::map<const Op *, int> phases_;
  Users users_;
  std::map<const Value *, Uses> uses_;
  std::set<const Op *> rows_;
  std::unordered_map<const Value *, bool> ofRow_;
  MadeOfScalars isMadeOfScalars_; // rematerialized where it is used
};

class Stager {
public:
  Stager(Module &m, int64_t threads) : m_(m), b_(m), kernel_(*m.kernel()->block()), rows_(kernel_, threads) {
    b_.setFolding(false);
  }

  uint64_t bytes() { return rows_.bytes(); }

  void run() {
    anyOp(kernel_, [&](const Op &op) {
      if (isCheap(op) && rows_.isOfRow(op.results[0]))
        operands_[&op] = {op.operands.begin(), op.operands.end()};
      return false;
    });
    rewrite(kernel_);
  }

private:
  struct Tile {
    Value *tile = nullptr;
    bool isThere = false;  // waited for in the kernel's block
    bool isWhole = false;  // has the program's value where the mask is off
  };

  /// Rematerializes a value for a phase, at the end of the current block.
  Value *inPhase(Value *v, int phase, const Block *block) {
    if (!rows_.isOfRow(v))
      return v;
    Value *&known = again_[{v, phase, block}];
    if (known)
      return known;
    Op &def = *v->def;
    b_.setLoc(def.loc);
    b_.setInlinedAt(def.inlinedAt);
    if (rows_.has(&def))
      return known = read(def, block);
    std::vector<Value *> operands;
    for (Value *x : operands_.at(&def))
      operands.push_back(inPhase(x, phase, block));
    b_.setLoc(def.loc);
    b_.setInlinedAt(def.inlinedAt);
    return again_[{v, phase, block}] = b_.create(def.kind, operands, {&v->type, 1}, def.attrs)->result();
  }

  Value *read(Op &load, const Block *block) {
    Tile &row = tiles_.at(&load);
    const bool isInKernel = block == &kernel_;
    if (!row.isThere) {
      b_.create(OpKind::AsyncWait, {}, {}, {{attr::pending, 0}, {attr::syncsWarp, true}});
      for (auto &[other, tile] : tiles_)
        tile.isThere |= isInKernel;
    }
    Value *v = b_.create1(OpKind::SharedLoad, {row.tile}, load.result()->type);
    if (row.isWhole)
      return v;
    v = b_.create1(OpKind::Select, {load.operands[1], v, load.operands[2]}, v->type);
    if (isInKernel) {
      Value *const stored[] = {row.tile, v};
      b_.create(OpKind::SharedStore, stored, {});
      row.isWhole = true;
    }
    return v;
  }

  void copy(Op &load) {
    const Type &t = load.result()->type;
    const uint16_t layout = m_.internLayout(plainTile(t, LinearLayout(m_.layoutOf(t)), load.vec()));
    b_.setLoc(load.loc);
    b_.setInlinedAt(load.inlinedAt);
    Value *tile = b_.create1(OpKind::SharedAlloc, {}, Type::shared(t.shape, t.elem, layout), {{attr::slots, 1}});
    tiles_[&load] = {tile, false, load.operands.size() < 3 || isZero(load.operands[2])};
    std::vector<Value *> operands{tile};
    operands.insert(operands.end(), load.operands.begin(),
                    load.operands.begin() + static_cast<ptrdiff_t>(std::min<size_t>(2, load.operands.size())));
    b_.create(OpKind::AsyncCopy, operands, {}, load.attrsFor(OpKind::AsyncCopy));
    b_.create(OpKind::AsyncCommit, {}, {});
  }

  void rewrite(Block &b) {
    Block now;
    for (Op *op : std::vector<Op *>(b.ops)) {
      b_.setBlock(&now);
      if (rows_.has(op)) {
        copy(*op);
        continue;
      }
      if (operands_.contains(op))
        continue; // made where it is used
      const int phase = rows_.phaseOf(op);
      for (Value *&v : op->operands)
        v = inPhase(v, phase, &b);
      if (op->kind == OpKind::If)
        for (Region *r : op->regions)
          rewrite(*r->block);
      now.ops.push_back(op);
    }
    b.ops.clear();
    splice(now, b, 0);
  }

  Module &m_;
  Builder b_;
  Block &kernel_;
  Rows rows_;
  std::map<const Op *, Tile> tiles_;
  std::map<const Op *, std::vector<Value *>> operands_; // the original operands of values computed from rows
  std::map<std::tuple<const Value *, int, const Block *>, Value *> again_;
};

bool canStage(const Module &m) {
  return m.kernel() && !anyOp(*m.kernel()->block(), [](const Op &op) {
           return op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::Dot ||
                  op.kind == OpKind::Partitions || op.kind == OpKind::AsyncCommit;
         });
}

} // namespace

bool haveRoom(uint64_t rows, const TargetInfo &target) {
  constexpr uint64_t ofReductions = 4096;
  return rows + ofReductions <= target.sharedLimit();
}

StagedRows stagedRows(Module &m, int64_t threads) {
  return {canStage(m) ? Rows(*m.kernel()->block(), threads).bytes() : 0};
}

bool stageRows(Module &m, const TargetInfo &target, const Options &options) {
  if (!options.stagesRows || !canStage(m))
    return false;
  Stager stager(m, int64_t{target.lanes()} * options.numWarps);
  if (const uint64_t bytes = stager.bytes(); !bytes || !haveRoom(bytes, target))
    return false;
  stager.run();
  return true;
}

} // namespace tegula::gpu
