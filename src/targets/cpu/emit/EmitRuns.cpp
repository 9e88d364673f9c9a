// Flat positions: loops over elements whose addresses use quotients and remainders of the position (`x // W`, `x % W`).
//
// Consecutive elements of a row of W share the quotient, and the remainder grows with the position. So the loop
// advances from row end to row end: at the first vector of a run it computes the quotients, the remainders and the
// number of following vectors that stay in the row, which then use loads and stores of whole vectors. A vector that
// contains the end of a row is executed twice with masked accesses, with the numbers of its first lane up to the end,
// and with those of its last lane from there on. If several rows end at different positions in one vector, or numbers
// are negative or wrap around, its lanes are evaluated one by one, as in other nests.
//
//   y[x] = in[x % W + S * (x // W)], W = 56, vectors of 16          |run: 3 vectors      |8 + 8|run: 2    |16|...
#include "targets/cpu/emit/Emitter.h"
#include "targets/common/VecUtil.h"
#include "llvm/Support/MathExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

static bool isShift(const Op &op) { return op.kind == OpKind::AShr || op.kind == OpKind::LShr; }

/// Emits the loop over one nest's flat positions, for FunctionEmitter::loopByRuns().
class RunEmitter {
public:
  RunEmitter(FunctionEmitter &emitter) : e_(emitter), b_(emitter.b_), n(*emitter.nest_) {}
  bool loop(NestLoop &l, V to, bool mayBeEmpty, llvm::SmallVector<V> &carried, FunctionEmitter::Trip trip);

private:
  /// What a number grows by from lane to lane, and from vector to vector.
  struct Moves {
    int64_t perLane, perTrip;
  };
  using Part = std::pair<const NestState::OfTrip *, Moves>;
  /// The first vector of a run, looked at by each part of addresses: the number that it is a quotient or remainder of
  /// there, by which one, and what is left of its row, all i64.
  struct RowAt {
    Moves moves;
    V x, by, left;
    int64_t most; // that x can be
  };
  /// What a trip looks at: the parts whose rows end others' as well, i1: the others' do follow (null: there are none),
  /// and whether a vector may be done twice.
  struct Ends {
    llvm::SmallVector<Part, 4> finest;
    V follow;
    bool storesOnly;
  };
  /// The paths of a trip: the block where they join and, for each path, its results, then its number of trips, and the
  /// block that it ends in.
  struct Ways {
    llvm::BasicBlock *done;
    llvm::SmallVector<std::pair<llvm::SmallVector<V>, llvm::BasicBlock *>, 3> results;
  };
  bool suits(const NestLoop &l) const;
  std::optional<Moves> movesOf(const NestState::OfTrip &t) const;
  bool staysInRun(const ir::Value *v, const Bits &at, unsigned &budget) const;
  bool findParts();
  bool storesOnly() const;
  V followsFinerRows(llvm::SmallVectorImpl<Part> &parts);
  llvm::SmallVector<RowAt, 4> rowsAt(llvm::ArrayRef<Part> parts);
  V vectorsOfRun(llvm::ArrayRef<RowAt> rows);
  std::pair<V, V> endOfRows(llvm::ArrayRef<RowAt> rows);
  NestState::Run numbersAt(V start, BitSource lane);
  void way(llvm::BasicBlock *block, const NestState::Run *run, llvm::function_ref<void()> emit);
  void leave(Ways &ways, llvm::SmallVector<V> out, V step);
  void vectors(NestLoop &l, V start, V until, llvm::ArrayRef<V> in, FunctionEmitter::Trip trip, Ways &ways);
  void halves(const NestState::Run &run, V at, FunctionEmitter::Trip trip, Ways &ways);
  llvm::SmallVector<V> join(const Ways &ways);
  llvm::SmallVector<V> run(NestLoop &l, const Ends &ends, llvm::ArrayRef<V> in, FunctionEmitter::Trip trip);
  llvm::BasicBlock *block(const char *name) { return llvm::BasicBlock::Create(e_.context_, name, e_.function_); }

  FunctionEmitter &e_;
  llvm::IRBuilder<> &b_;
  NestState &n;
  llvm::SmallVector<Part, 4> parts_; // quotients and remainders of addresses
};

// How the number that a quotient or remainder is taken of moves on, if by the same step everywhere.
std::optional<RunEmitter::Moves> RunEmitter::movesOf(const NestState::OfTrip &t) const {
  const Op &op = *t.part.value->def;
  if (op.kind == OpKind::Select ||
      (isShift(op) && (!op.operands[1]->def || op.operands[1]->def->kind != OpKind::Const ||
                       op.operands[1]->def->intValue() < 0 || op.operands[1]->def->intValue() > 30)))
    return {};
  const Lin x = e_.lin(op.operands[0]), by = e_.lin(op.operands[1]);
  if (!x.opaque.empty() || x.self || !by.opaque.empty() || by.self)
    return {};
  const NestLoop &l = n.loops.back();
  std::optional<int64_t> lane, trip;
  unsigned lanes = 0, loops = 0;
  for (size_t i = 0; i < t.at.size(); ++i) {
    if (t.at[i] < 0)
      continue;
    const auto bit = static_cast<size_t>(t.at[i]);
    const bool inLane = n.isLane(t.at[i]);
    if (!inLane && !n.isOfLoop(t.at[i], n.loops.size() - 1))
      continue;
    const unsigned position =
        inLane ? static_cast<unsigned>(n.laneBit(t.at[i])) : static_cast<unsigned>(bit) - l.firstBit;
    std::optional<int64_t> &unit = inLane ? lane : trip;
    ++(inLane ? lanes : loops);
    if (!by.coef[i].zero() || x.coef[i].s || x.coef[i].k < 0 || x.coef[i].k != x.coef[i].k >> position << position)
      return {};
    const int64_t k = x.coef[i].k >> position;
    if (unit && *unit != k)
      return {};
    unit = k;
  }
  if ((lanes && lanes != n.laneBits) || (loops && loops != l.bits) || (lane && *lane > 1) ||
      (trip && *trip && !llvm::isPowerOf2_64(static_cast<uint64_t>(*trip))))
    return {};
  return Moves{lane.value_or(0), trip.value_or(0)};
}

// Is `v`, needed at `at`, the same in all vectors of a run? Made of quotients that are asked for there, and of what
// does not vary.
bool RunEmitter::staysInRun(const ir::Value *v, const Bits &at, unsigned &budget) const {
  auto varies = [&](BitSource s) { return n.isInRow(s); };
  if (!v->type.isTensor() || llvm::none_of(at, varies) || (v->def && v->def->kind == OpKind::Const))
    return true;
  if (!v->def || !budget)
    return false;
  --budget;
  for (const NestState::OfTrip &t : n.ofTrip)
    if (t.kind == NestState::TripPart::Quotient && t.part.value == v && t.at == at)
      return true;
  const Op &op = *v->def;
  if (!op.has(ir::traits::Elementwise) && !isView(op))
    return false;
  for (unsigned i = 0; i < op.operands.size(); ++i)
    if (!staysInRun(op.operands[i], operandBits(op, i, v->index, at), budget))
      return false;
  return true;
}

/// The number that `v` is in all elements, as far as its operations say: what a splat is of, a constant.
static const ir::Value *oneNumber(const ir::Value *v) {
  while (v->def && (v->def->kind == OpKind::SExt || isView(*v->def)))
    v = v->def->operands[0];
  return v;
}

/// Is `x` a product of `y`, unless it wraps around?
static bool isProductOf(const ir::Value *x, const ir::Value *y, unsigned budget = 8) {
  x = oneNumber(x), y = oneNumber(y);
  if (x == y)
    return true;
  if (!x->def || !budget)
    return false;
  if (x->def->kind == OpKind::Const && y->def && y->def->kind == OpKind::Const)
    return y->def->intValue() > 0 && x->def->intValue() > 0 && x->def->intValue() % y->def->intValue() == 0;
  return x->def->kind == OpKind::Mul &&
         (isProductOf(x->def->operands[0], y, budget - 1) || isProductOf(x->def->operands[1], y, budget - 1));
}

// Where an index is taken apart into several (`o % D`, `o // D`, `o // (D * R)`), the rows of a product of D end where
// those of D do: only the finest ones of each number are left in `parts`. i1: the divisors are multiples as they look;
// null: nothing was left out.
V RunEmitter::followsFinerRows(llvm::SmallVectorImpl<Part> &parts) {
  auto operands = [](const Part &p) -> const auto & { return p.first->part.value->def->operands; };
  auto follows = [&](size_t i, size_t j) {
    const Part &x = parts[i], &y = parts[j];
    const Op &ofX = *x.first->part.value->def, &ofY = *y.first->part.value->def;
    const bool same = operands(x)[1] == operands(y)[1];
    return operands(x)[0] == operands(y)[0] && x.first->at == y.first->at && !isShift(ofX) && !isShift(ofY) &&
           (same ? j < i : isProductOf(operands(x)[1], operands(y)[1]));
  };
  auto divisor = [&](const Part &p) {
    Bits at = p.first->at;
    for (BitSource &s : at)
      if (n.isLane(s) || n.isOfLoop(s, n.loops.size() - 1))
        s = zeroBit;
    return b_.CreateSExt(e_.eval(operands(p)[1], at), b_.getInt64Ty());
  };
  V holds = nullptr;
  llvm::SmallVector<Part, 4> finest;
  for (size_t i = 0; i < parts.size(); ++i) {
    size_t j = 0;
    while (j < parts.size() && (j == i || !follows(i, j)))
      ++j;
    if (j == parts.size()) {
      finest.push_back(parts[i]);
    } else if (operands(parts[i])[1] != operands(parts[j])[1]) {
      V of = divisor(parts[i]), by = divisor(parts[j]);
      // rowsAt() tests whether it is greater than zero
      by = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, by, b_.getInt64(1));
      V multiple = b_.CreateAnd(b_.CreateICmpSGT(of, b_.getInt64(0)), b_.CreateIsNull(b_.CreateSRem(of, by)));
      holds = holds ? b_.CreateAnd(holds, multiple) : multiple;
    }
  }
  parts = std::move(finest);
  return holds;
}

llvm::SmallVector<RunEmitter::RowAt, 4> RunEmitter::rowsAt(llvm::ArrayRef<Part> parts) {
  llvm::SmallVector<RowAt, 4> rows;
  for (const auto &[t, moves] : parts) {
    Bits low = t->at;
    for (BitSource &s : low)
      if (n.isLane(s))
        s = zeroBit;
    const Op &op = *t->part.value->def;
    const bool remainder = op.kind == OpKind::SRem || op.kind == OpKind::URem;
    auto wide = [&](V x) { return b_.CreateSExt(x, b_.getInt64Ty()); };
    V x = e_.eval(op.operands[0], low), value = wide(e_.eval(t->part.value, low));
    const int64_t most = llvm::maxIntN(x->getType()->getIntegerBitWidth());
    x = wide(x);
    V by =
        isShift(op) ? b_.getInt64(uint64_t(1) << op.operands[1]->def->intValue()) : wide(e_.eval(op.operands[1], low));
    rows.push_back(
        {moves, x, by, b_.CreateSub(by, remainder ? value : b_.CreateSub(x, b_.CreateMul(value, by))), most});
  }
  return rows;
}

// How many vectors, the first one included, stay in all rows; i64, 0: it ends in one of them, or numbers are negative
// or wrap around.
V RunEmitter::vectorsOfRun(llvm::ArrayRef<RowAt> rows) {
  V trips = nullptr, zero = b_.getInt64(0);
  for (const RowAt &r : rows) {
    V growth = b_.getInt64(static_cast<uint64_t>(r.moves.perLane) * (n.lanes() - 1));
    V room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(r.left, b_.getInt64(1)),
                                      b_.CreateSub(b_.getInt64(static_cast<uint64_t>(r.most)), r.x));
    V holds = b_.CreateAnd(b_.CreateAnd(b_.CreateICmpSGE(r.x, zero), b_.CreateICmpSGT(r.by, zero)),
                           b_.CreateICmpSGE(room, growth));
    V one = b_.getInt64(uint64_t(1) << 40); // it does not grow
    if (r.moves.perTrip)
      one =
          b_.CreateAdd(b_.CreateAShr(b_.CreateSub(room, growth), llvm::Log2_64(static_cast<uint64_t>(r.moves.perTrip))),
                       b_.getInt64(1));
    one = b_.CreateSelect(holds, one, zero);
    trips = trips ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, trips, one) : one;
  }
  return trips;
}

// The lane at which rows end in a vector, i64, and i1: it is the same for all that end there, and each of them ends
// once.
std::pair<V, V> RunEmitter::endOfRows(llvm::ArrayRef<RowAt> rows) {
  V lane = nullptr, holds = b_.getTrue(), lanes = b_.getInt64(n.lanes()), zero = b_.getInt64(0);
  for (const RowAt &r : rows) {
    V last = b_.getInt64(static_cast<uint64_t>(r.most - r.moves.perLane * (n.lanes() - 1)));
    holds = b_.CreateAnd(holds, b_.CreateAnd(b_.CreateAnd(b_.CreateICmpSGE(r.x, zero), b_.CreateICmpSGT(r.by, zero)),
                                             b_.CreateICmpSLE(r.x, last)));
    if (!r.moves.perLane)
      continue;
    holds = b_.CreateAnd(holds, b_.CreateICmpSLE(b_.CreateSub(lanes, r.left), r.by));
    lane = lane ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, lane, r.left) : r.left;
  }
  for (const RowAt &r : rows)
    if (r.moves.perLane)
      holds = b_.CreateAnd(holds, b_.CreateOr(b_.CreateICmpEQ(r.left, lane), b_.CreateICmpSGE(r.left, lanes)));
  return {lane, holds};
}

// Does the shape of the nest being emitted allow a loop by rows? findParts() checks its addresses.
bool RunEmitter::suits(const NestLoop &l) const {
  if (n.ofTrip.empty() || n.apart || n.vectors.bits || n.panel || !n.laneBits || !l.bits || n.nest->sequential ||
      n.quick)
    return false;
  const auto copies = static_cast<unsigned>(n.unrolled.size());
  if (copies && (!n.inVectors || n.unrolled.front() + copies != l.firstBit))
    return false;
  // Runs add to the first copy's sums alone. Those of the others are neutral elements, or what a first trip leaves in
  // them.
  return !copies || llvm::none_of(n.nest->roots, [&](const Root &r) {
    return (r.kind == RootKind::Reduce || r.kind == RootKind::Scan) && !e_.identity(*r.op, 0);
  });
}

// Fills parts_. False if a part of an address changes in an unsupported way, if no part ends rows, or if rows are
// shorter than a vector, so that one ends in each vector.
bool RunEmitter::findParts() {
  for (const NestState::OfTrip &t : n.ofTrip) {
    unsigned budget = 12;
    if (t.kind == NestState::TripPart::Follows) {
      if (!staysInRun(t.part.value, t.at, budget))
        return false;
    } else if (std::optional<Moves> moves = movesOf(t)) {
      parts_.push_back({&t, *moves});
    } else {
      return false;
    }
  }
  auto isShort = [&](const Part &p) {
    const Op &op = *p.first->part.value->def, *by = op.operands[1]->def;
    return p.second.perLane && by && by->kind == OpKind::Const &&
           (isShift(op) ? int64_t(1) << by->intValue() : by->intValue()) < static_cast<int64_t>(n.lanes());
  };
  return llvm::any_of(parts_, [](const Part &p) { return p.second.perTrip != 0; }) && llvm::none_of(parts_, isShort);
}

// Does every root only store, so that a vector may be done twice under two masks?
bool RunEmitter::storesOnly() const {
  return llvm::all_of(n.nest->roots, [this](const Root &r) {
    return r.kind == RootKind::Store || (r.kind == RootKind::Update && e_.plan_.bufferFor(r.op->results[0]) < 0) ||
           (r.kind == RootKind::Materialize && r.buffer < 0);
  });
}

// The numbers of all parts at the first lane (`lane` zeroBit) or the last one (oneBit) of the vector at trip `start`.
NestState::Run RunEmitter::numbersAt(V start, BitSource lane) {
  NestState::Run run;
  run.start = start;
  for (const NestState::OfTrip &t : n.ofTrip) {
    Bits at = t.at;
    for (BitSource &s : at)
      if (n.isLane(s))
        s = lane;
    run.first[t.part.value] = e_.eval(t.part.value, at);
  }
  for (const auto &[t, moves] : parts_)
    if (t->kind == NestState::TripPart::Remainder)
      run.moves[t->part.value] = moves.perTrip;
  return run;
}

// Emits one path of a trip at `block`, with the numbers of `run` or, if null, lane by lane. Its values do not dominate
// the other paths.
void RunEmitter::way(llvm::BasicBlock *block, const NestState::Run *run, llvm::function_ref<void()> emit) {
  b_.SetInsertPoint(block);
  auto memo = n.memo;
  auto addresses = n.addressMemo;
  const size_t mixed = e_.mixed_.mark();
  n.run = run;
  n.staying = run != nullptr;
  for (const NestState::OfTrip &t : n.ofTrip)
    if (run)
      n.assumed[t.part.value] = t.at;
    else
      n.assumed.erase(t.part.value);
  emit();
  n.staying = false;
  n.run = nullptr;
  n.memo = std::move(memo);
  n.addressMemo = std::move(addresses);
  e_.mixed_.backTo(mixed);
}

// Ends a path: passes its results and its number of trips to `done`.
void RunEmitter::leave(Ways &ways, llvm::SmallVector<V> out, V step) {
  out.push_back(step);
  ways.results.push_back({std::move(out), b_.GetInsertBlock()});
  b_.CreateBr(ways.done);
}

// The loop over the vectors [start, until) of one run, from its first vector on.
void RunEmitter::vectors(NestLoop &l, V start, V until, llvm::ArrayRef<V> in, FunctionEmitter::Trip trip, Ways &ways) {
  n.memo[n.open].clear(); // of the first vector
  n.addressMemo[n.open].clear();
  auto *vector = block("run.vector"), *over = block("run.over");
  llvm::BasicBlock *before = b_.GetInsertBlock();
  b_.CreateBr(vector);
  b_.SetInsertPoint(vector);
  llvm::PHINode *iv = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
  llvm::SmallVector<llvm::PHINode *> phis;
  for (V x : in)
    phis.push_back(b_.CreatePHI(x->getType(), 2));
  l.iv = iv;
  llvm::SmallVector<V> out = trip(llvm::SmallVector<V>(phis.begin(), phis.end()));
  V step = b_.CreateAdd(iv, b_.getInt64(1), "", true, true);
  llvm::BasicBlock *latch = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(step, until), vector, over);
  iv->addIncoming(start, before);
  iv->addIncoming(step, latch);
  for (size_t i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(in[i], before);
    phis[i]->addIncoming(out[i], latch);
  }
  l.iv = start;
  b_.SetInsertPoint(over);
  // not `until`: the next run is not to wait for this one's divisions
  leave(ways, std::move(out), b_.CreateSub(step, start));
}

// A vector in which rows end at lane `at` (i64): twice under masks, by the numbers of its first lane up to there
// (`run`), and by those of its last one from there on.
void RunEmitter::halves(const NestState::Run &run, V at, FunctionEmitter::Trip trip, Ways &ways) {
  V lane = b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at, b_.getInt64(n.lanes())), b_.getInt32Ty());
  V before = b_.CreateICmpULT(targets::consecutive(b_.getInt32Ty(), n.lanes()), b_.CreateVectorSplat(n.lanes(), lane));
  const auto memo = n.memo;
  const auto addresses = n.addressMemo;
  const size_t mixed = e_.mixed_.mark();
  const NestState::Run last = numbersAt(run.start, oneBit);
  for (bool second : {false, true})
    way(b_.GetInsertBlock(), second ? &last : &run, [&] {
      n.fromLast = second;
      n.onlyLanes = second ? b_.CreateNot(before) : before;
      trip({});
      n.fromLast = false;
      n.onlyLanes = nullptr;
    });
  leave(ways, {}, b_.getInt64(1));
  n.memo = memo;
  n.addressMemo = addresses;
  e_.mixed_.backTo(mixed);
}

// Joins the results of all paths; sets n.movesOn to the number of trips that were executed.
llvm::SmallVector<V> RunEmitter::join(const Ways &ways) {
  b_.SetInsertPoint(ways.done);
  llvm::SmallVector<V> out;
  for (size_t i = 0; i < ways.results[0].first.size(); ++i) {
    llvm::PHINode *phi = b_.CreatePHI(ways.results[0].first[i]->getType(), static_cast<unsigned>(ways.results.size()));
    for (const auto &[values, from] : ways.results)
      phi->addIncoming(values[i], from);
    out.push_back(phi);
  }
  n.movesOn = out.pop_back_val();
  return out;
}

// What a trip of the loop over runs does: a run of whole vectors, or one vector in which rows end, or one vector lane
// by lane.
llvm::SmallVector<V> RunEmitter::run(NestLoop &l, const Ends &ends, llvm::ArrayRef<V> in, FunctionEmitter::Trip trip) {
  V start = l.iv;
  const llvm::SmallVector<RowAt, 4> rows = rowsAt(ends.finest);
  const NestState::Run run = numbersAt(start, zeroBit);
  V count = vectorsOfRun(rows);
  if (ends.follow)
    count = b_.CreateSelect(ends.follow, count, b_.getInt64(0));
  V until = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(start, count), n.trips);
  auto *enter = block("run"), *split = block("ends");
  Ways ways{block("run.done"), {}};
  b_.CreateCondBr(b_.CreateICmpSGT(until, start), enter, split);
  way(enter, &run, [&] { vectors(l, start, until, in, trip, ways); });
  b_.SetInsertPoint(split);
  auto *apart = block("lanes");
  if (ends.storesOnly && llvm::any_of(rows, [](const RowAt &r) { return r.moves.perLane != 0; })) {
    auto *inTwo = block("halves");
    const auto [at, holds] = endOfRows(rows);
    b_.CreateCondBr(ends.follow ? b_.CreateAnd(ends.follow, holds) : holds, inTwo, apart);
    b_.SetInsertPoint(inTwo);
    halves(run, at, trip, ways);
  } else {
    b_.CreateBr(apart);
  }
  way(apart, nullptr, [&] { leave(ways, trip(in), b_.getInt64(1)); });
  return join(ways);
}

// The loop over trips [0, to) by runs, one vector in each of them; false: addresses do not go by rows, and nothing is
// emitted.
bool RunEmitter::loop(NestLoop &l, V to, bool mayBeEmpty, llvm::SmallVector<V> &carried, FunctionEmitter::Trip trip) {
  if (!suits(l))
    return false;
  // The unrolled copies become trips.
  const NestLoop coarse = l;
  const auto unrolled = std::move(n.unrolled);
  const auto copies = static_cast<unsigned>(unrolled.size());
  n.unrolled.clear();
  l.firstBit -= copies;
  l.bits += copies;
  for (unsigned bit : unrolled)
    n.loopOf[bit] = static_cast<int>(n.loops.size()) - 1;
  const bool goes = findParts();
  if (goes) {
    Ends ends{parts_, nullptr, storesOnly()};
    ends.follow = followsFinerRows(ends.finest);
    V coarseTrips = n.trips, end = b_.CreateShl(to, copies);
    n.trips = end;
    auto first = llvm::ArrayRef(carried).take_front(carried.size() >> copies); // of the first copy
    llvm::SmallVector<V> out = e_.loop(l, b_.getInt64(0), end, mayBeEmpty, first,
                                       [&](llvm::ArrayRef<V> in) { return run(l, ends, in, trip); });
    std::copy(out.begin(), out.end(), carried.begin());
    n.trips = coarseTrips;
  }
  for (unsigned bit : unrolled)
    n.loopOf[bit] = -1;
  l = coarse;
  n.unrolled = unrolled;
  return goes;
}

// What a part of an address is for the first lane (the last one, if `fromLast`) of the vector at hand.
V FunctionEmitter::ofRun(const ir::Value *v, const Bits &at) {
  NestState &n = *nest_;
  auto first = n.run->first.find(v);
  if (first == n.run->first.end())
    return eval(v, at);
  if (const int64_t moves = n.run->moves.lookup(v))
    return b_.CreateAdd(first->second, b_.CreateMul(b_.CreateTrunc(b_.CreateSub(n.loops.back().iv, n.run->start),
                                                                   first->second->getType()),
                                                    llvm::ConstantInt::getSigned(first->second->getType(), moves)));
  return first->second;
}

bool FunctionEmitter::loopByRuns(NestLoop &l, V to, bool mayBeEmpty, llvm::SmallVector<V> &carried, Trip trip) {
  return RunEmitter(*this).loop(l, to, mayBeEmpty, carried, trip);
}

} // namespace tegula::cpu
