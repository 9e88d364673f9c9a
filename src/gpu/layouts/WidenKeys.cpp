// See WidenKeys.h.
#include "gpu/layouts/WidenKeys.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

class KeyWidener {
public:
  explicit KeyWidener(Module &m) : b_(m), entry_(*m.kernel()->block()), users_(entry_) { b_.setFolding(false); }

  void run() {
    find(entry_);
    while (!work_.empty()) {
      Op *op = work_.back();
      work_.pop_back();
      for (const std::vector<Value *> *values : {&op->operands, &op->results})
        for (Value *v : *values)
          if (isNarrow(*v) && values_.insert(v).second) {
            order_.push_back(v);
            take(v->def);
            for (Op *user : users_.of(v))
              take(user);
          }
    }
    for (Value *v : order_)
      if (v->def && ops_.count(v->def))
        leave(*v);
      else
        enter(*v);
    for (Op *op : ops_)
      if (op->kind == OpKind::Reduce)
        widenRegion(*op->region(0));
  }

private:
  void find(const Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::Exchange && isNarrow(*op->result()))
        take(op);
      for (const Region *r : op->regions)
        find(*r->block);
    }
  }

  static bool isNarrow(const Type &t) { return !t.isPtr && (t.elem == Elem::I8 || t.elem == Elem::I16); }
  static bool isNarrow(const Value &v) { return v.type.isTensor() && isNarrow(v.type); }

  /// Does the operation give the same result on sign-extended operands?
  static bool isBitwise(const Op &op) {
    switch (op.kind) {
    case OpKind::Xor:
    case OpKind::And:
    case OpKind::Or:
    case OpKind::SMin:
    case OpKind::SMax:
    case OpKind::UMin:
    case OpKind::UMax:
    case OpKind::CmpI:
    case OpKind::Select:
      return true;
    default:
      return false;
    }
  }
  static bool keepsMeaning(const Op &op) {
    switch (op.kind) {
    case OpKind::Exchange:
    case OpKind::Reshape:
    case OpKind::Permute:
    case OpKind::ExpandDims:
    case OpKind::Broadcast:
      return true;
    case OpKind::AShr: // by a constant less than the width: larger ones mean something else in the other type
      if (std::optional<int64_t> by = constantInt(op.operands[1]))
        return *by >= 0 && *by < static_cast<int64_t>(bitWidth(op.result()->type.elem));
      return false;
    case OpKind::Reduce:
      return op.operands.size() == 1 && op.result()->type.isTensor() &&
             std::ranges::all_of(op.region(0)->ops, [&](const Op *o) {
               auto isInside = [&](const Value *v) {
                 return v->def ? v->def->parent == op.region(0) : v->block == op.region(0);
               };
               return (o->has(traits::Terminator) || isBitwise(*o)) && std::ranges::all_of(o->operands, isInside);
             });
    default:
      return isBitwise(op);
    }
  }

  void take(Op *op) {
    if (op && keepsMeaning(*op) && ops_.insert(op).second)
      work_.push_back(op);
  }

  static Type wide(const Type &t) { return t.withElem(Elem::I32); }

  /// Sign-extends a value that an operation outside the set defines, at its definition.
  void enter(Value &v) {
    Block here;
    b_.setBlock(&here);
    Block *block = v.def ? v.def->parent : v.block;
    const Op &near = v.def ? *v.def : *block->ops.front();
    b_.setLoc(near.loc);
    b_.setInlinedAt(near.inlinedAt);
    const std::optional<int64_t> constant = constantInt(&v);
    const unsigned unused = 64 - bitWidth(v.type.elem);
    Value *now =
        constant ? b_.constInt(wide(v.type), static_cast<int64_t>(static_cast<uint64_t>(*constant) << unused) >> unused)
                 : b_.cast(OpKind::SExt, &v, Elem::I32);
    now->name = v.name;
    splice(here, *block, v.def ? positionOf(*block, v.def) + 1 : 0);
    for (Op *user : users_.of(&v))
      if (ops_.count(user))
        std::ranges::replace(user->operands, &v, now);
  }

  /// Gives a computed value 32 bits, and truncates it for users outside the set.
  void leave(Value &v) {
    const Type was = v.type;
    v.type = wide(was);
    Value *narrow = nullptr;
    for (Op *user : users_.of(&v)) {
      if (ops_.count(user))
        continue;
      if (!narrow) {
        Block here;
        b_.setBlock(&here);
        b_.setLoc(v.def->loc);
        b_.setInlinedAt(v.def->inlinedAt);
        narrow = b_.cast(OpKind::Trunc, &v, was.elem);
        splice(here, *v.def->parent, positionOf(*v.def->parent, v.def) + 1);
      }
      std::ranges::replace(user->operands, &v, narrow);
    }
  }

  static void widenRegion(Block &b) {
    auto widen = [](Value *v) {
      if (isNarrow(v->type))
        v->type = wide(v->type);
    };
    std::ranges::for_each(b.args, widen);
    for (Op *op : b.ops)
      std::ranges::for_each(op->results, widen);
  }

  Builder b_;
  Block &entry_;
  Users users_;
  std::unordered_set<Op *> ops_;
  std::unordered_set<Value *> values_;
  std::vector<Value *> order_;
  std::vector<Op *> work_;
};

} // namespace

void widenKeys(Module &m) { KeyWidener(m).run(); }

} // namespace tegula::gpu
