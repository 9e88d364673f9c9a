// Emits the LLVM function of one plan. The class is shared by the Emit*.cpp files, one for each concern:
//
//   EmitFunction  entry, program loop, arguments     EmitSteps    steps and structured control flow
//   EmitScalar    operations on registers            EmitLinear   linear forms (Lin.h)    EmitAddress   their values and addresses at a position
//   EmitNest      loops of a nest, its roots    EmitMasks  where masks hold along a row    EmitValue    a virtual value at a position
//   EmitMemory    chunks to and from memory          EmitReduce   accumulators, scans
//   EmitAtomic    atomics, histogram                 EmitFault    asserts, checked accesses, printing
//   EmitTranspose order of lanes in nests that write packed operands; shuffles between the two orders
//   EmitRest      trips after the end of a row    EmitRuns     flat positions, row by row    EmitQuotients quotients and remainders of a trip    LayOutNest  lanes, copies, loops
//   EmitSegments  rows by parts in which masks hold    EmitStream    non-temporal stores, fetching ahead    EmitAsm      inline assembly    EmitDivision  by a number from outside the loop
//   EmitDot       dots and the places of their operands    EmitKeep  packed tiles that later programs find
//
// Positions and hoisting: inside a nest a value is needed at a Bits position. The innermost loop that its bits belong
// to determines the depth of its code: it is placed before the next inner loop (the "hoist point"), so invariants are
// computed once and no LLVM pass has to move them. A hoist point is inside a finished block: code that branches and may
// be part of a value splits the block there (splitHere, resumeAt). A value with a lane bit in its position is a vector,
// else a scalar.
#pragma once
#include "targets/common/Divisor.h"
#include "targets/common/ShareStretches.h"
#include "targets/cpu/emit/LaunchFactors.h"
#include "targets/cpu/emit/ModuleState.h"
#include "targets/cpu/emit/NestState.h"
#include "targets/cpu/emit/ScopedMap.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <optional>
#include <set>

namespace tegula::cpu {

/// Bits of a scalar or of an element of a vector; 64 for pointers, where LLVM returns 0.
inline unsigned elementBits(const llvm::Type *t) {
  return t->getScalarType()->isPointerTy() ? 64 : t->getScalarSizeInBits();
}
/// Concatenates vectors (or scalars) of one length; their number is a power of two.
llvm::Value *concatenate(llvm::IRBuilder<> &b, std::vector<llvm::Value *> parts);

/// Bytes loaded of values that all rows of a sum along rows share (the vector of a matrix-vector product); 0 if the
/// nest is not such a sum.
uint64_t bytesInCommon(const Nest &n);

class FunctionEmitter {
public:
  /// Callees' scratch starts after the plan's.
  FunctionEmitter(ModuleState &state, const Plan &plan);
  void emitKernel();
  void emitCallee();

private:
  using V = llvm::Value *;

  // EmitFunction
  V scratchAt(uint64_t offset), programs(), rowsOfGroup();
  void returnCode(V code), setAttributes(), beginDebug();
  void programLoop(V begin, V end), placeInOrder(V linear, V columns, V rowsOfGroup), pollCancel(const ir::Op *loop);
  llvm::BasicBlock *stoppedBlock();
  void callRuntime(size_t offset, llvm::ArrayRef<V> args);
  void giveTurn(V rounds);

  // EmitSteps
  void steps(const Steps &s), step(const Step &s), stretch(llvm::function_ref<void()> emit);
  static bool repeats(const Plan &plan, const Options &options);
  void forStep(const Step &s), forLoop(const Step &s), whileStep(const Step &s);
  void withRowInRegisters(const Nest &nest, V row, llvm::function_ref<void()> emit);
  void ifStep(const Step &s), callStep(const Step &s), returnStep(const Step &s), defineStep(const ir::Op &op);
  void nestWithInit(const Step &s), nestStep(const Step &s);
  static bool isTensorResult(const ir::Op &op);
  void bindScalars(llvm::ArrayRef<ir::Value *> values, llvm::ArrayRef<V> regs);
  llvm::SmallVector<V> scalarsOf(llvm::ArrayRef<ir::Value *> values);
  void setLoc(const ir::Op *op);

  // EmitDot
  void dotStep(const Step &s), dotByPanel(const Step &s);
  Counts whatCounts(const Step &s);
  void panelsOfDot(const Step &s, const DotPlan &p, const InPlace &a, const Counts &counts, int64_t unit,
                   bool accumulate);
  V countsOf(const DotPart::Condition &c, unsigned fromBit, unsigned bits, int diagonal = -1);
  V countsOfAll(const DotPart::Conditions &all, unsigned fromBit, unsigned bits, int diagonal = -1);
  bool define(const ir::Value *v, llvm::SmallVectorImpl<const ir::Value *> &lent);
  bool staysLinear(const Lin &l, const Bits &at);
  std::optional<InPlace> leftInPlace(const Step &s, const Counts &counts, V depth); // depth: k needed, null: all
  void resultInPlace(const Step &s, InPlace &r);
  InPlace leftOperand(const Step &s, const Counts &counts, V depth = nullptr);
  V joined(V x, llvm::BasicBlock *fromX, V y, llvm::BasicBlock *fromY); // phi of two predecessors

  // EmitKeep
  void beginPanel(), panel(), askKept(), startKept(const Steps &all, bool atEntry);
  Kept kept(const Step &s, const Counts &counts);
  FoundLeft keptLeft(const Step &s, const Counts &counts, V depth);
  llvm::SmallVector<V, 16> numbersOf(const ir::Value *operand, llvm::ArrayRef<V> more);
  bool madeFrom(const ir::Value *v, llvm::SmallSetVector<V, 16> &from, llvm::SmallPtrSetImpl<const ir::Value *> &seen);

  // EmitScalar
  llvm::Type *regType(const ir::Type &scalar) const, *memType(const ir::Type &scalar) const;
  V toMemory(V x, const ir::Type &t), fromMemory(V x, const ir::Type &t);
  V constant(const ir::Op &op), broadcast(V x, unsigned lanes);
  /// Selected lanes of a vector; one lane gives a scalar (vectors of one element are never used).
  V pickLanes(V x, llvm::ArrayRef<int> lanes);
  /// Any elementwise op; args are all scalars or vectors of one length (scalars are broadcast).
  V elementwise(const ir::Op &op, llvm::SmallVector<V, 3> args);
  V scalarOp(const ir::Op &op), ofLaunch(const ir::Value *v);
  V scalarLoad(const ir::Op &op);
  void scalarStore(const ir::Op &op);
  V programId(unsigned axis) { return pid_[axis]; }
  V numPrograms(unsigned axis);
  /// A combine region on registers (lane by lane): all args are scalars or vectors of one length, and so are the
  /// results.
  llvm::SmallVector<V, 4> combine(const ir::Region &r, llvm::ArrayRef<V> args);
  llvm::SmallVector<V, 4> combineLanes(const ir::Region &r, const Steps &s, llvm::ArrayRef<V> args);
  llvm::SmallVector<V, 4> combineScalars(const ir::Region &r, const Steps &s, llvm::ArrayRef<V> args);
  llvm::SmallVector<V, 4> combineBlock(const ir::Block &b, llvm::DenseMap<const ir::Value *, V> &env);

  // EmitLinear
  void defineLinear(const ir::Op &op);
  const Lin &lin(const ir::Value *v), &bufferLin(int buffer);
  Lin linear(const ir::Op &op, unsigned result), selfLin(const ir::Value *v),
      moveLin(const ir::Op &op, const Lin &a, unsigned result);
  Lin addLin(const Lin &a, const Lin &b, bool subtract), scaleLin(const Lin &a, V s);
  bool extendLin(const Lin &a, Lin &out);
  Coef addCoef(Coef a, Coef b), mulCoef(Coef a, Coef b);
  V coefValue(Coef c, llvm::Type *t), extendAtDef(V s);
  void insertBehindDef(V s); // where it dominates all possible uses

  // EmitAddress
  friend class AddressEmitter;
  /// The form's value at a position; an address if `pointer`. `key`: identifies the form, to memoize hoisted parts.
  /// `mayWrapLate`: one quotient or remainder may be left to evaluateLate.
  LaneAddress linAt(const void *key, const Lin &l, const Bits &at, bool pointer, bool mayWrapLate = false);
  V laneVector(const LaneAddress &a, llvm::Type *intType);
  V opaqueLanes(const Opaque &o, V x, llvm::Type *t, bool pointer), extendNarrow(V sum, Coef by);
  // the product of all scales of a part's value, i64 if it is extended before the last
  Coef scaleOf(const Lin &l, const Opaque &o);
  void evaluateLate(LaneAddress &a);
  V evalLinear(const ir::Value *v, const Lin &l, const Bits &at);

  // EmitQuotients
  static Bits positionOf(const Opaque &o, const Bits &at);
  /// If `o` at `at` is the remainder (or quotient) of a linear value by an invariant divisor, and the value grows with
  /// the sources of `at` for which `varies` holds: its total growth, not 0. Else nullopt.
  using Varies = llvm::function_ref<bool(BitSource)>;
  std::optional<int64_t> growthOfRemainder(const Opaque &o, const Bits &at, Varies varies),
      growthOfDividend(const Opaque &o, const Bits &at, Varies varies);
  void ifOneStep(llvm::function_ref<Bits(const NestState::OfTrip &)> at, Varies bits, llvm::function_ref<void()> emit,
                 llvm::function_ref<void()> otherwise);
  Unwrapped unwrapped(const Opaque &o, const Bits &at, int64_t growth, llvm::function_ref<bool(BitSource)> varies);
  bool flatten(LaneAddress &a, const Opaque &o, const Bits &at, Coef scale, llvm::Type *t),
      quotientsOf(const ir::Value *v, const Bits &at, unsigned &budget,
                  llvm::SmallVectorImpl<NestState::OfTrip> &found);

  // EmitValue
  unsigned depthOf(const Bits &at) const;
  bool hasLanes(const Bits &at) const;
  V eval(const ir::Value *v, const Bits &at);
  V compute(const ir::Value *v, const Bits &at);
  /// Recomputes `v` from its operands even if it has a buffer.
  V computeFresh(const ir::Value *v, const Bits &at),
      divideByOneNumber(const ir::Op &op, llvm::ArrayRef<V> args, const Bits &at),
      divideByOneFloat(const ir::Op &op, llvm::ArrayRef<V> args, Bits at);
  V evalShape(const ir::Op &op, const ir::Value *v, const Bits &at);
  V evalLoad(const ir::Op &op, const Bits &at), ofRun(const ir::Value *v, const Bits &at),
      evalGather(const ir::Op &op, const Bits &at), evalExchange(const ir::Op &op, const Bits &at, Lin l, Bits from),
      exchangeLanes(V x, V by);
  V loadBuffer(int buffer, const ir::Type &as, const Bits &at);
  void storeBuffer(int buffer, V value, const ir::Type &from, const Bits &at, bool asOperand = false);
  V convertElem(V x, const ir::Type &from, const ir::Type &to);
  V atDepth(unsigned depth, llvm::function_ref<V()> f);

  // EmitMemory
  V loadLanes(const LaneAddress &a, const ir::Type &t, V mask, V other, bool isVolatile, const ir::Op *site);
  void storeLanes(const LaneAddress &a, V value, const ir::Type &t, V mask, bool isVolatile, const ir::Op *site,
                  bool streams = false);
  bool inHalves(llvm::FixedVectorType *type, unsigned bytes, const ir::Op *load);
  V loadHalves(llvm::FixedVectorType *type, V at, llvm::Align align);
  void narrowMaskedStore(V x, V at, V mask);
  V narrowMaskedLoad(llvm::FixedVectorType *type, V at, V mask),
      maskedLoad(llvm::FixedVectorType *type, unsigned bytes, V at, V mask, V other);
  V loadWithoutWrap(const LaneAddress &a, const ir::Type &t, V mask, V other, bool isVolatile, const ir::Op *site);
  V gatherLanes(const LaneAddress &a, const ir::Type &t, V mask, V other);
  bool manyVectors(unsigned lanes, unsigned bytes) const;
  V pieceStart(const LaneAddress &a, llvm::ArrayRef<unsigned> across, unsigned i, std::vector<V> &starts);
  V gatherOneByOne(V pointers, llvm::FixedVectorType *type, V mask, V other),
      gatherFromWords(V pointers, llvm::FixedVectorType *type, V mask, V other);
  V maskedScalarLoad(V pointer, const ir::Type &t, V mask, V other, bool isVolatile);
  V pointers(const LaneAddress &a), anyOf(V mask);
  LaneAddress addressOf(const ir::Value *pointers, const Bits &at);
  /// `at`, or unused memory if `mask`, a bit (null: always on), switches all lanes off.
  V whereOn(V at, V mask);
  V whole(V maskOrNull, unsigned lanes);

  // LayOutNest, EmitNest
  friend class NestLayOut;
  void layOut(NestState &n);
  void runNest(NestState &state);
  void openLoops(unsigned level), openLoop(unsigned level), innerLoop(),
      insideOrMasked(V full, llvm::function_ref<void()> body);
  V tripsOf(const NestLoop &l), divideUp(V x, int64_t to), roundUp(V x, int64_t to);
  void root(const Root &r, const Bits &at), roots(unsigned copy, llvm::SmallVectorImpl<V> &accs, V first);
  Bits spaceBits() const, rootBits(unsigned copy) const;
  /// for (iv = from; iv < to; ++iv) with carried values; requires from < to unless `mayBeEmpty`.
  llvm::SmallVector<V> loop(NestLoop &l, V from, V to, bool mayBeEmpty, llvm::ArrayRef<V> init,
                            llvm::function_ref<llvm::SmallVector<V>(llvm::ArrayRef<V>)> body);
  V endOfBuffers(NestLoop &l, V trips);
  bool isFilledHere(const ir::Value *v) const,
      readsFilledHere(const ir::Value *v, std::set<const ir::Value *> &seen) const;
  void notePartsOfTrip(const ir::Op &access, const Bits &at), roots(llvm::SmallVectorImpl<V> &accs, V first);
  using Trip = llvm::function_ref<llvm::SmallVector<V>(llvm::ArrayRef<V>)>; // of what the loop carries
  bool loopByRuns(NestLoop &l, V to, bool mayBeEmpty, llvm::SmallVector<V> &carried, Trip trip);
  friend class RunEmitter;
  V findSegments(llvm::ArrayRef<Flip> flips, const std::map<const ir::Value *, Bits> &same, V full, V steady, V all);
  void segmentLoops(NestLoop &l, V trips, llvm::SmallVector<V> &carried, Trip run),
      trips(NestLoop &l, V full, V trips, llvm::SmallVector<V> &carried, Trip run);
  void fullLoop(NestLoop &l, V from, V full, V trips, llvm::SmallVector<V> &carried, Trip run),
      maskedLoop(NestLoop &l, V from, V to, V trips, llvm::SmallVector<V> &carried, Trip run);

  // EmitMasks
  friend class TripsInside;
  V fullTrips(NestLoop *inner, unsigned innerBits, bool throughBuffers = false);
  V rowsWithoutWrap(const ir::Op &load, const Bits &at, NestLoop &inner), differenceOf(V x, V y, llvm::Type *of),
      sumOf(V x, V y, llvm::Type *of);
  V fullTripsOf(const ir::Op &cmp, const Bits &at, NestLoop *inner, unsigned innerBits, MaskEnd &end);
  void masksOf(const ir::Value *v, const Bits &at, std::set<const ir::Value *> &seen,
               llvm::SmallVectorImpl<MaskAt> &out, bool throughBuffers = false);
  /// Is `v` at `at` a comparison that holds in the loop being emitted, or a remainder that grows there like its
  /// dividend?
  bool isAssumed(const ir::Value *v, const Bits &at) const, isDenied(const ir::Value *mask, const Bits &at) const;

  // EmitRest
  V falseFrom(const ir::Value *mask, const Bits &at, unsigned &budget), endOfRow(V trips);
  bool sameBehind(const ir::Value *v, const Bits &at, Rest &rest);
  const ir::Value *addedInPlace(const Root &r) const;
  void findRest();

  // EmitStream
  void decideStreaming(), finishStreaming();
  bool assumedTrue(const ir::Value *mask, const Bits &at) const;
  V streamRow(), streamsInRounds(const Step &s, V lb, V ub, V by);
  void streamStore(V x, V at);
  V movedOn(V x, llvm::function_ref<V(V)> known, unsigned &budget), inNextProgram(V x, unsigned &budget);
  void stepsOfLoop(const Steps &all, const ir::Block &body, llvm::PHINode *iv, V by, V to);
  void findAhead(), fetchAhead(unsigned copy), prefetch(V at);
  V inLaterRound(V x, uint64_t rounds, unsigned &budget), nextTile(const Lin &l, V left, int64_t depth);
  std::pair<V, V> panelAhead(const Lin &l, Coef row, Coef panel, V there);
  void fetchBetween(const ir::Op &load, const Lin &l, const Bits &at, V distance, V rows, Coef stride);
  void fetchRowAhead(const LaneAddress &a, const Lin &l, const Bits &at, const ir::Op &load, llvm::Value *mask);

  // EmitTranspose
  Bits packingLanes(const Nest &n, unsigned &vectorBits);
  void apart(llvm::function_ref<void()> emit);
  Bits sourceOrder(const ir::Value *v, const Bits &at, bool root, unsigned &budget, unsigned &bytes);
  Bits orderOfLanes(const ir::Value *pointers, unsigned bytes, const Bits &at);
  V transposeLanes(std::vector<V> parts, llvm::SmallVector<unsigned, 10> inPart,
                   llvm::SmallVector<unsigned, 10> ofPart);

  // EmitReduce
  unsigned accumulatorCount() const;
  llvm::SmallVector<V> initialAccumulators();
  void accumulate(const Root &r, unsigned copy, unsigned slot, const Bits &at, llvm::SmallVectorImpl<V> &accs, V first);
  void finishReductions(llvm::ArrayRef<V> accs), scanLanes(const ir::Op &scan, llvm::SmallVectorImpl<V> &x);
  void reduce(const Root &r, unsigned slot, llvm::ArrayRef<V> accs, std::vector<Reduced> &out);
  std::vector<Reduced> reduceAll(llvm::ArrayRef<V> accs);
  void keepReduced(llvm::ArrayRef<Reduced> all), addToCarried(const Root &r, V result, const Bits &at);
  bool canReduceQuickly();
  void reduceQuickly(llvm::function_ref<llvm::SmallVector<V>()> accumulateAll);
  llvm::SmallVector<V, 4> combineReduced(const ir::Op &reduce, llvm::ArrayRef<V> args);
  V identity(const ir::Op &reduce, unsigned i);
  llvm::SmallVector<V, 4> combineUnlessFirst(const ir::Op &op, llvm::ArrayRef<V> args, V first);

  // EmitAsm, EmitAtomic
  V assembly(const ir::Op &op, llvm::ArrayRef<V> args);
  void assemblyElement(const ir::Op &op, const Bits &at), assemblyScalar(const ir::Op &op);
  V atomicOp(const ir::Op &op, V pointer, llvm::ArrayRef<V> args);
  V atomicWord(llvm::AtomicOrdering order, V pointer, unsigned bits, llvm::function_ref<V(V)> update);
  V maskedAtomic(const ir::Op &op, V pointer, llvm::ArrayRef<V> args, V mask);
  bool atomicStep(const Step &s);
  void askAlone(), update(const ir::Op &op, const Bits &at), histogramElement(const ir::Op &op, const Bits &at);
  V updated(const ir::Op &op, V old, V x), updateOneByOne(const ir::Op &op, V pointers, V x, V mask);
  /// then() if `cond` holds, else `otherwise` or zero. `result`: the type of the value, null: there is none.
  V ifThen(V cond, llvm::Type *result, llvm::function_ref<V()> then, V otherwise = nullptr);
  llvm::BasicBlock *splitHere(const char *name);
  /// eachLane: a loop over lanes, whose vectors go through the stack; `body` gets the lane number (i64). Its block is
  /// named `name`, the one after it `behind`.
  void resumeAt(llvm::BasicBlock *rest),
      eachLane(unsigned lanes, const char *name, const char *behind, llvm::function_ref<void(V)> body);
  llvm::AllocaInst *onStack(llvm::Type *type);

  // EmitFault
  int siteOf(const ir::Op &op, Site::Kind kind), siteNumber(const ir::Op &op, Site::Kind kind);
  /// Branches to the code that `leave` emits if `bad`; that code ends its block.
  void leaveIf(V bad, const char *name, llvm::function_ref<void()> leave);
  void fault(int code, int site, V index, V extent), checkNull(V pointer, V mask, const ir::Op &site);
  llvm::BasicBlock *faultedBlock(int code);
  void assertRoot(const ir::Op &op, V cond, V mask), printStep(const Step &s);
  void guardAccess(const LaneAddress &a, unsigned bytes, V mask, const ir::Op &site);
  int accessSite(const ir::Op &op);
  void checkAccess(const LaneAddress &a, unsigned bytes, V mask, const ir::Op &site);
  void checkRange(V first, V last, unsigned bytes, V active, const ir::Op &site);

  ModuleState &state_;
  const Plan &plan_;
  llvm::LLVMContext &context_;
  llvm::IRBuilder<> b_;
  VecEmitter vec_;
  llvm::Function *function_ = nullptr;
  V launch_ = nullptr, scratch_ = nullptr, grid_[3]{}, pid_[3]{}, cancel_ = nullptr, blank_ = nullptr;
  V alone_ = nullptr; // i1: no other thread uses atomics meanwhile; null: not known
  // i64: programs of this call from the current one on; for a group: programs that run at once, see programs()
  V left_ = nullptr, programs_ = nullptr;
  // i1: the launch writes more than caches hold, null: no store may stream; double, if so: programs times iterations of
  // the loops around
  V streamLaunch_ = nullptr, rounds_ = nullptr;
  llvm::SmallVector<V> externals_; // result tensors of a callee
  // end of the program loop; next program; see stoppedBlock
  llvm::BasicBlock *done_ = nullptr, *after_ = nullptr, *stopped_ = nullptr;
  std::map<int, llvm::BasicBlock *> faulted_;           // by their codes, see faultedBlock
  llvm::AllocaInst *stopSite_ = nullptr;                // the loop, as a site
  std::map<uint64_t, V> scratchAt_;
  uint64_t calleeScratch_ = 0; // where frames of callees start
  // stretches are recorded; some loop tests for itself whether it writes more than caches hold
  bool repeats_ = false, loopStreams_ = false;
  std::vector<targets::Stretch> stretches_;
  llvm::DenseMap<const ir::Value *, V> scalar_;
  llvm::DenseMap<const ir::Value *, Lin> lin_;
  std::map<int, Lin> bufferLin_;
  LaunchFactors factors_;
  ScopedMap<std::tuple<int64_t, V, int64_t, V>, V> mixed_;
  llvm::DenseMap<V, V> extended_; // factors of 32 bits, as 64-bit ones: see extendAtDef
  llvm::DenseMap<V, targets::Divisor> divisors_; // of divisors of floats, computed after their definitions
  NestState *nest_ = nullptr;
  std::map<const ir::Op *, int> sites_; // number + 1
  DotLoop loop_;
  std::pair<const Nest *, llvm::SmallVector<V, 2>> rows_; // a nest whose outer loops are open, and their numbers
  llvm::DenseMap<const ir::Op *, const Nest *> firstReader_; // of loads whose lanes are contiguous
};

} // namespace tegula::cpu
