// Quotients and remainders in the addresses of a trip: tests whether quotients are the same for all lanes, and whether
// remainders grow like their dividends.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

// The position of an opaque part when the form that it belongs to is needed at `at`.
Bits FunctionEmitter::positionOf(const Opaque &o, const Bits &at) {
  Bits inner;
  for (BitSource s : o.at)
    inner.push_back(s >= 0 ? at[static_cast<size_t>(s)] : s);
  return inner;
}

std::optional<Wrapped> wrapped(const Op *op) {
  if (!op)
    return {};
  if (op->kind == OpKind::SRem || op->kind == OpKind::URem)
    return Wrapped{op->operands[0], op->operands[1]};
  const Op *inside = op->kind == OpKind::Select ? op->operands[0]->def : nullptr,
           *otherwise = inside ? op->operands[2]->def : nullptr;
  const ir::Type &t = op->results[0]->type;
  if (!inside || inside->kind != OpKind::CmpI || t.isPtr || !t.isIntLike() || !otherwise ||
      otherwise->kind != OpKind::Const || otherwise->intValue() != 0)
    return {};
  const unsigned at = inside->pred() == ir::CmpPred::Sgt ? 1 : 0; // bound > x
  if ((at == 0 && inside->pred() != ir::CmpPred::Slt) || inside->operands[at] != op->operands[1])
    return {};
  return Wrapped{op->operands[1], inside->operands[1 - at]};
}

/// The whole part of a quotient: it grows with the dividend, in steps.
static bool isQuotient(const Op *op) {
  return op &&
         (op->kind == OpKind::SDiv || op->kind == OpKind::UDiv || op->kind == OpKind::AShr || op->kind == OpKind::LShr);
}

std::optional<int64_t> FunctionEmitter::growthOfDividend(const Opaque &o, const Bits &at,
                                                         llvm::function_ref<bool(BitSource)> varies) {
  const Op *op = o.value->def;
  std::optional<Wrapped> of = wrapped(op);
  if (isQuotient(op))
    of = Wrapped{op->operands[0], op->operands[1]};
  if (!of)
    return {};
  const Lin x = lin(of->x), by = lin(of->bound); // copies: asking for one may move the other
  if (!x.opaque.empty() || x.self)
    return {};
  for (size_t i = 0; i < at.size(); ++i)
    if (varies(at[i]) && !by.coef[i].zero())
      return {};
  for (const Opaque &part : by.opaque)
    if (llvm::any_of(positionOf(part, at), varies))
      return {};
  int64_t growth = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (!varies(at[i]))
      continue;
    if (x.coef[i].s || x.coef[i].k < 0)
      return {};
    growth += x.coef[i].k;
  }
  if (!growth || growth > INT32_MAX)
    return {};
  return mayBeTerms(o, growth, factors_) ? std::optional(growth) : std::nullopt;
}

std::optional<int64_t> FunctionEmitter::growthOfRemainder(const Opaque &o, const Bits &at,
                                                          llvm::function_ref<bool(BitSource)> varies) {
  return wrapped(o.value->def) ? growthOfDividend(o, at, varies) : std::nullopt;
}

// The last is as far from the first as without the remainder, or, of a quotient, the same. Only these two are computed.
Unwrapped FunctionEmitter::unwrapped(const Opaque &o, const Bits &at, int64_t growth,
                                     llvm::function_ref<bool(BitSource)> varies) {
  Bits low = at, high = at;
  for (size_t i = 0; i < at.size(); ++i)
    if (varies(at[i])) {
      low[i] = zeroBit;
      high[i] = oneBit;
    }
  V first = eval(o.value, low), last = eval(o.value, high);
  const Op &op = *o.value->def;
  if (!isQuotient(&op)) {
    V holds = b_.CreateICmpEQ(b_.CreateSub(last, first), llvm::ConstantInt::getSigned(first->getType(), growth));
    // Where the dividend wraps around between the two, the last is not the greater one. where(x < n, x, 0): if it is,
    // by all of the growth, x is inside at the last.
    holds =
        b_.CreateAnd(holds, op.kind == OpKind::URem ? b_.CreateICmpUGT(last, first) : b_.CreateICmpSGT(last, first));
    if (op.kind == OpKind::Select)
      holds = b_.CreateAnd(holds, b_.CreateICmpSGE(first, llvm::ConstantInt::get(first->getType(), 0)));
    return {first, holds};
  }
  // The dividend may have wrapped around in between.
  V from = eval(op.operands[0], low), to = eval(op.operands[0], high);
  const bool isSigned = op.kind == OpKind::SDiv || op.kind == OpKind::AShr;
  return {first, b_.CreateAnd(b_.CreateICmpEQ(first, last),
                              isSigned ? b_.CreateICmpSLE(from, to) : b_.CreateICmpULE(from, to))};
}

bool FunctionEmitter::isFilledHere(const ir::Value *v) const {
  return llvm::any_of(nest_->nest->roots,
                      [&](const Root &r) { return r.kind == RootKind::Materialize && r.value == v; });
}

// Does evaluating `v` read a buffer that this nest fills? Such a buffer is valid only up to the current position.
bool FunctionEmitter::readsFilledHere(const ir::Value *v, std::set<const ir::Value *> &seen) const {
  if (v->type.isScalar() || !v->def || !seen.insert(v).second)
    return false;
  if (plan_.bufferFor(v) >= 0)
    return isFilledHere(v);
  return llvm::any_of(v->def->operands, [&](const ir::Value *x) { return readsFilledHere(x, seen); });
}

// The quotients that `v`, needed at `at`, varies with inside of a trip, if it is computed from them and from what does
// not vary there, by few operations.
bool FunctionEmitter::quotientsOf(const ir::Value *v, const Bits &at, unsigned &budget,
                                  llvm::SmallVectorImpl<NestState::OfTrip> &found) {
  auto inTrip = [&](BitSource s) { return nest_->isInTrip(s); };
  if (!v->type.isTensor() || llvm::none_of(at, inTrip) || (v->def && v->def->kind == OpKind::Const))
    return true;
  if (!v->def || v->type.isPtr || plan_.bufferFor(v) >= 0 || !budget)
    return false;
  --budget;
  const Op &op = *v->def;
  if (isQuotient(&op) && growthOfDividend({v, identityBits(static_cast<unsigned>(at.size()))}, at, inTrip)) {
    found.push_back({{v, identityBits(static_cast<unsigned>(at.size()))}, at, NestState::TripPart::Quotient});
    return true;
  }
  if (!op.has(ir::traits::Elementwise) && !isView(op))
    return false;
  for (unsigned i = 0; i < op.operands.size(); ++i)
    if (!quotientsOf(op.operands[i], operandBits(op, i, v->index, at), budget, found))
      return false;
  return true;
}

// Records quotients and remainders that roots() tests once per trip: whether all vectors of the trip have one quotient,
// and whether a remainder does not wrap around in it. Only where the mask of the access is known to be true.
void FunctionEmitter::notePartsOfTrip(const ir::Op &access, const Bits &at) {
  NestState &n = *nest_;
  auto inTrip = [&](BitSource s) { return n.isInTrip(s); };
  auto isLane = [&](BitSource s) { return n.isLane(s); };
  auto isNoted = [&](const ir::Value *v) {
    return llvm::any_of(n.ofTrip, [&](const NestState::OfTrip &t) { return t.part.value == v; });
  };
  for (const Opaque &o : lin(access.operands[0]).opaque) {
    const Bits bits = positionOf(o, at);
    std::set<const ir::Value *> seen;
    unsigned budget = 12;
    llvm::SmallVector<NestState::OfTrip, 2> found;
    if (llvm::none_of(bits, isLane) || isNoted(o.value) || readsFilledHere(o.value, seen)) // asked for before the trip
      continue;
    if (growthOfDividend(o, bits, inTrip)) {
      n.ofTrip.push_back(
          {o, bits, isQuotient(o.value->def) ? NestState::TripPart::Quotient : NestState::TripPart::Remainder});
    } else if (quotientsOf(o.value, bits, budget, found) && !found.empty()) {
      for (NestState::OfTrip &q : found)
        if (!isNoted(q.part.value))
          n.ofTrip.push_back(std::move(q));
      n.ofTrip.push_back({o, bits, NestState::TripPart::Follows});
    }
  }
}

// Where all parts of addresses that vary with `bits`, lanes or all of a trip, are inside of one step there: `emit` with
// that known, else `otherwise`. `at` gives where a part is needed.
void FunctionEmitter::ifOneStep(llvm::function_ref<Bits(const NestState::OfTrip &)> at, Varies bits,
                                llvm::function_ref<void()> emit, llvm::function_ref<void()> otherwise) {
  NestState &n = *nest_;
  V stays = b_.getTrue();
  for (const NestState::OfTrip &t : n.ofTrip)
    if (t.kind != NestState::TripPart::Follows)
      if (Bits where = at(t); std::optional<int64_t> growth = growthOfDividend(t.part, where, bits))
        stays = b_.CreateAnd(stays, unwrapped(t.part, where, *growth, bits).holds);
  llvm::BasicBlock *ways[2] = {llvm::BasicBlock::Create(context_, "one.quotient", function_),
                               llvm::BasicBlock::Create(context_, "quotients", function_)};
  auto *done = llvm::BasicBlock::Create(context_, "trip.done", function_);
  b_.CreateCondBr(stays, ways[0], ways[1]);
  for (unsigned i = 0; i < 2; ++i) {
    b_.SetInsertPoint(ways[i]);
    auto memo = n.memo;
    auto addresses = n.addressMemo;
    const size_t mixed = mixed_.mark();
    n.staying = i == 0;
    for (const NestState::OfTrip &t : n.ofTrip)
      if (n.staying)
        n.assumed[t.part.value] = at(t);
      else
        n.assumed.erase(t.part.value);
    n.staying ? emit() : otherwise();
    n.staying = false;
    n.memo = std::move(memo);
    n.addressMemo = std::move(addresses);
    mixed_.backTo(mixed);
    b_.CreateBr(done);
  }
  b_.SetInsertPoint(done);
}

// The work of a trip. Twice if accesses go by quotients or remainders: the trip as a whole may be inside of one step,
// and then these are scalars. Where several numbers decide that, each vector is asked, too.
void FunctionEmitter::roots(llvm::SmallVectorImpl<V> &accs, V first) {
  NestState &n = *nest_;
  const unsigned copies = 1u << n.unrolled.size();
  auto all = [&] {
    for (unsigned c = 0; c < copies; ++c)
      roots(c, accs, first);
  };
  if (!n.assuming || n.apart || !accs.empty() || n.ofTrip.empty() || n.unrolled.empty())
    return all();
  auto inTrip = [&](BitSource s) { return n.isInTrip(s); };
  auto isLane = [&](BitSource s) { return n.isLane(s); };
  auto byVector = [&] {
    for (unsigned c = 0; c < copies; ++c) {
      auto ofVector = [&](const NestState::OfTrip &t) {
        Bits at = t.at;
        for (BitSource &s : at)
          for (size_t i = 0; i < n.unrolled.size(); ++i)
            if (s == static_cast<BitSource>(n.unrolled[i])) {
              s = (c >> i & 1) ? oneBit : zeroBit;
              break;
            }
        return at;
      };
      auto one = [&] { roots(c, accs, first); };
      ifOneStep(ofVector, isLane, one, one);
    }
  };
  ifOneStep([](const NestState::OfTrip &t) { return t.at; }, inTrip, all,
            n.ofTrip.size() > 1 ? llvm::function_ref<void()>(byVector) : llvm::function_ref<void()>(all));
}

// The value of `o` at `at` is (linear) % n, or (linear) // n, which often is one number for all lanes. All lanes are
// computed where they are needed (evaluateLate). The form's `flatBase` is in 32 bits for now if the part is of a
// Narrow.
bool FunctionEmitter::flatten(LaneAddress &a, const Opaque &o, const Bits &at, Coef scale, llvm::Type *t) {
  NestState &n = *nest_;
  auto isLane = [&](BitSource s) { return n.isLane(s); };
  std::optional<int64_t> growth = n.depth == n.open ? growthOfDividend(o, at, isLane) : std::nullopt;
  if (!growth)
    return false;
  const bool stays = isQuotient(o.value->def);
  const Lin l = lin(stays ? o.value->def->operands[0] : wrapped(o.value->def)->x);
  llvm::SmallVector<Coef, 6> lane(n.laneBits);
  for (size_t i = 0; i < at.size(); ++i)
    if (isLane(at[i]) && !stays)
      lane[n.laneBit(at[i])].k += l.coef[i].k;
  auto [first, holds] = unwrapped(o, at, *growth, isLane);
  a.noWrap = holds;
  llvm::Type *narrow = o.narrow < 0 ? t : first->getType();
  a.flatBase = b_.CreateMul(b_.CreateSExtOrTrunc(first, narrow), coefValue(o.scale, narrow)); // offset for now
  for (unsigned i = 0; i < n.laneBits; ++i)
    a.flatLane.push_back(lane[i].zero() ? a.lane[i] : addCoef(a.lane[i], {lane[i].k * scale.k, scale.s}));
  a.late = LaneAddress::Late{o, at};
  return true;
}

} // namespace tegula::cpu
