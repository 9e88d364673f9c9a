// One loop whose operands come through rings of tiles in shared memory: which loads, which dots, how many slots (plan),
// and the steps of rewriting its body that do not depend on who starts the copies. PipelineLoops.cpp lets the loop's
// own threads start them, SpecializeWarps.cpp a warp of its own.
#pragma once
#include "gpu/LoopSlice.h"
#include "gpu/TargetInfo.h"
#include "gpu/loops/AsyncDots.h"
#include "gpu/loops/LoopObstacles.h"
#include "gpu/loops/RotateDots.h"
#include <array>
#include <functional>
#include <map>
#include <optional>

namespace tegula::gpu {

/// Tiles in shared memory that are filled in turn: by copies some iterations ahead, or by the iteration itself.
struct Ring {
  ir::Op *source;             // the load, the to_shared, or the convert of what is staged
  ir::Type tile;
  bool isCopied = false;      // filled ahead: by async_copy or tma_copy, or staged
  // filled in stages, whose mbarriers say so: by block copies, or by the threads of a producer
  bool inStages = false;
  // of block copies: the second dot of a loop reads it, not the first; it has barriers of its own
  bool isLate = false;
  bool isStaged = false;      // few elements, loaded and computed ahead, and stored by the threads: others read them
  bool staysInFlight = false; // an asynchronous dot may read a slot beyond the end of its iteration
  bool feedsAsyncDot = false;    // asked of copied ones only
  // of async_copy: in registers of all threads when copies start, which may fill the slot of the same iteration
  bool isReadFirst = false;
  // of async_copy: the same as soon as all threads synchronize after the first asynchronous dot
  bool isReadBeforeDots = false;
  unsigned slots = 0;
  ir::Value *memory = nullptr;
};

/// mbarriers of the stages of rings that block copies fill: the bytes are there; all warps that read them are done.
/// Late rings have their own: the first dot waits for its own tiles only, and those are free as soon as it is done, an
/// iteration before the second one's if that runs on.
struct StageBarriers {
  ir::Value *full = nullptr, *empty = nullptr;
  ir::Value *lateFull = nullptr, *lateEmpty = nullptr; // of late rings; null if there are none

  ir::Value *fullOf(bool late) const { return late ? lateFull : full; }
  ir::Value *emptyOf(bool late) const { return late ? lateEmpty : empty; }
};
/// Where an iteration releases the stage of the one before it, the empty barriers have a spare one after those of the
/// stages: the first iteration, before which no stage was read, arrives there. Nobody waits for it, and it takes any
/// number of arrivals, as each phase that completes begins the next one (PTX ISA, "Phase completion of the mbarrier
/// object"). ptxas places an arrival under a condition late in the iteration (docs/performance-history.md).
struct StageBarrierCounts {
  unsigned stages = 0;
  unsigned consumers = 0;            // warps of a CTA that release a stage
  bool hasLate = false;              // are there late rings?
  std::array<bool, 2> hasSpare = {}; // of the empty barriers: of late rings ([true]) and of the others
  unsigned ctas = 1;                 // those whose warps release a stage together
  unsigned fillers = 1;              // threads that say that it is full

  /// Bytes of shared memory.
  uint64_t bytes() const { return uint64_t{8} * ((hasLate ? 4 : 2) * stages + hasSpare[false] + hasSpare[true]); }
};
StageBarriers makeStageBarriers(ir::Builder &b, const StageBarrierCounts &c);

/// How operands that are computed take turns in their rings, by bytes.
enum class Turns : uint8_t {
  Late,   // a slot more while an asynchronous dot may read at the end of an iteration
  Early,  // two slots: last iteration's asynchronous dots are waited for before the barrier before this one's
  Single, // one slot: they are waited for, and everybody with them, before the operand is stored
};

/// Sizes of rings. A slot is free when the asynchronous dots that read it are waited for: where none are waited for in
/// the iteration itself, that is in the next one.
struct RingChoice {
  int64_t ahead;         // iterations from a copy to its use
  Turns turns;
  // stages besides those: the first lets copies start before the wait for the last iteration's asynchronous dots
  unsigned slack = 0;
  // no asynchronous dot runs on when an iteration ends, so that async_copy needs no slot for that
  bool isDrained = false;
  // copies start after the first iteration's dot that rotateDots took out of the loop, and have its tile's bytes
  bool isBehindFirst = false;
  // copies start at the end of an iteration, or after lastRead, and after a second barrier: in the slots that it has
  // read
  bool isBehindReads = false;
  // async_copy starts after the wait for the last iteration's asynchronous dots and a second barrier: in the slots that
  // those have read
  bool isBehindWait = false;
  const ir::Op *lastRead = nullptr; // of isBehindReads: what is read later has a slot more; null: nothing is
};

class PipelinedLoop {
public:
  PipelinedLoop(ir::Module &m, ir::Op &loop, const TargetInfo &target, const Options &options, DiagEngine *remarks)
      : b_(m), module_(m), loop_(loop), body_(*loop.region(0)), slice_(loop), target_(target), options_(options),
        remarks_(loop, options, remarks) {
    b_.setFolding(false);
  }

  /// Decides; changes nothing but the place of arithmetic. False if the loop stays as it is (remarks say why).
  bool plan();

  ir::Op &loop() const { return loop_; }
  const std::vector<Ring> &rings() const { return rings_; }
  /// Slots of every ring that block copies fill; fewer of them, down to two.
  unsigned stages() const { return stages_; }
  void setStages(unsigned n);
  /// Options::askedCrowd, of this loop.
  uint32_t askedCrowd() const { return askedCrowd_; }

protected:
  // ---- decisions: PipelinedLoop.cpp; of sizes: RingSizes.cpp
  uint16_t wantedLayout(const ir::Value *v);
  ir::Type tileOf(const ir::Op &load);
  const ir::Op *readerOf(const ir::Value *v) const;
  LinearLayout tileForReads(const ir::Op &load, LinearLayout plain);
  bool isKnownAhead(const ir::Op &load);
  bool isCopyable(const ir::Value *v);
  void findStaged();
  void findLate();
  void leaveLate();
  std::optional<std::vector<const ir::Op *>> stagedLoadsOf(const ir::Value *v);
  void findCopies();
  Ring *ringOf(const ir::Op *source);
  Ring *ringOfTile(const ir::Value *tile);
  void findAsyncRings(const ir::Block &block);
  void giveBack(ir::Value *result);
  void findAsyncDots();
  void findReadFirst();
  void placeFragments(const ir::Op &dot);
  /// Left for what nobody counts, where it is not sure that all fits.
  uint64_t bytesToSpare() const { return hasStages() ? 0 : 512; }
  uint64_t bytesOfBody(uint64_t mostInBranch);
  int64_t mostIterations() const;
  uint64_t giveSlots(const RingChoice &c);
  uint64_t take(const RingChoice &c);
  std::vector<RingChoice> choices(int64_t wanted) const;
  /// Did rotateDots take a dot out of the loop, and may copies start after it?
  bool hasFirstDot() const { return startsCopies_ && opsOfFirstDot(loop_) > 0; }
  /// May an iteration end with a wait for its asynchronous dots? Not where operands are computed, which is done beside
  /// the last iteration's.
  bool canDrain() const {
    return usesGroups() && !anyRing([](const Ring &r) { return !r.isCopied; });
  }
  /// May copies start after the wait for the last iteration's dot, which all threads have after them at a second
  /// barrier? Where one dot runs on and nothing is computed in tiles for it.
  bool canWaitFirst() const;
  /// May it where operands are computed? Threads that copy meet at the top of each iteration, where the only slot is
  /// free.
  bool canDrainComputed() const { return usesGroups() && !hasStages(); }
  bool computesOfDots() const;
  /// May copies start after everything that reads this iteration's? Where threads copy for threads, as for products by
  /// mma.sync.
  bool canStartBehindReads() const;
  /// May they start between reads? Then they run beside the products after that.
  bool canStartBetweenReads() const;
  size_t lastReadOf(const ir::Value *v) const;
  std::vector<const ir::Op *> placesBetweenReads() const;
  uint64_t blocksByRegisters() const;
  uint64_t blocksByMemory(const RingChoice &c);
  bool gainsInCrowd(uint64_t few, uint64_t many);
  RingChoice withNeighbours(const RingChoice &c);
  uint64_t bytesOfIteration() const;
  RingChoice withEnoughUnderWay(const RingChoice &c);
  RingChoice withoutIdleStage(const RingChoice &c);
  bool leaveOthers();
  bool fitMemory();
  /// The operation before which all asynchronous dots of the last iteration must be done: null if their results alone
  /// decide.
  const ir::Op *placeOfEarlyWait() const;
  template <typename Test> bool anyRing(Test test) const { return std::any_of(rings_.begin(), rings_.end(), test); }
  bool hasStages() const { return anyRing([](const Ring &r) { return r.inStages; }); }
  /// Are there copies by the threads (async_copy), which come in groups?
  bool usesGroups() const {
    return anyRing([](const Ring &r) { return r.isCopied && !r.inStages && !r.isStaged; });
  }
  /// After the number of stages is known.
  bool hasLate() const {
    return anyRing([](const Ring &r) { return r.isLate; });
  }
  bool hasStaged() const {
    return anyRing([](const Ring &r) { return r.isStaged; });
  }

  // ---- PipelinedBody.cpp: values, made at the builder
  ir::Value *carry(ir::Value *init, std::string name);
  void carryOn(const ir::Value *arg, ir::Value *next);
  /// (slot + distance) mod slots, for distance < slots.
  ir::Value *nextSlot(ir::Value *slot, unsigned slots, int64_t distance);
  ir::Value *barrierAt(ir::Value *ring, ir::Value *slot) {
    return b_.create1(ir::OpKind::SharedSlot, {ring, slot}, ring->type);
  }
  void waitFor(ir::Value *ring, ir::Value *slot, ir::Value *phase, bool one);
  /// The parity after the stage in `slot`.
  ir::Value *flip(ir::Value *phase, ir::Value *slot, unsigned slots);
  /// Copies that fill one stage of the rings that block copies fill; `of` gives the operands of the loads of the
  /// iteration it is for. First waits until the stage is free, if `freePhase` is not null.
  void fillStage(ir::Value *slot, ir::Value *freePhase, const std::function<ir::Value *(ir::Value *)> &of);

  // ---- PipelinedBody.cpp: the body
  /// Slots, and the parity of stages, as carried values: the loop's first stage is `slot` with parity `phase`.
  void carryStages(ir::Value *slot, ir::Value *phase);
  /// At the end of the body (at the builder): the tiles of this iteration, or of the last one if asynchronous dots of
  /// this one still read, may be overwritten; slots and parity go on.
  void nextStage();
  /// After the wait for the last iteration's asynchronous dots: its tiles may be overwritten, unless that waits for the
  /// end (isReleasedBehindWait).
  void releaseBehindWait();
  void release(bool late, ir::Value *stage, ir::Value *when);
  /// After the loop and its wait (at the builder): the last stage may be overwritten.
  void releaseLastStage();
  void insertWaits();
  ir::Op *wait(ir::Block &block, size_t position, int64_t pending, const std::vector<ir::Value *> &values);
  /// Loads become their tiles; computed tiles are stored to the next slot. `top`: position in the body where the copied
  /// tiles are there.
  void useRings(size_t top);
  void useCopies(const Ring &r, size_t top);
  /// Before the second dot, if it reads late rings: after useRings().
  void waitForLate();
  void storeInTurn(const Ring &r);
  bool readsOwnCopies(const ir::Op &load) const;
  void dropFirstBarrier();
  /// Before what rotateDots took out of the loop, so that the first copies run beside its load.
  size_t placeOfPrologue() const;
  /// After the loop and the wait for its dots.
  size_t placeBehind() const;
  ir::Value *resultOf(const ir::Value *arg) const { return loop_.results[arg->index - 1]; }
  /// Is the tile the same in all CTAs, so that each can bring a part of it to all of them?
  bool isShared(const Ring &r, unsigned ctas) const;
  /// Asynchronous dots of an iteration may still read its stage when it ends.
  bool isReleasedLate() const { return isReleasedLate(false) || isReleasedLate(true); }
  std::array<bool, 2> hasSpare() const {
    return {usesSpare() && isReleasedLate(false), usesSpare() && isReleasedLate(true)};
  }
  /// Only where the arrival is to be early: at the end of an iteration the condition keeps ptxas from moving it up to
  /// the wait (values by columns 128x64, five stages, H200: 317 TFLOP/s at the end, 301 early).
  bool usesSpare() const {
    constexpr unsigned twoWarpgroups = 8;
    return !gathers_ && dots_.size() > 1 && options_.numWarps >= twoWarpgroups && isReleasedBehindWait();
  }
  /// Is there a stage to release: that of the iteration before this one, or the spare one?
  ir::Value *hasLast() {
    return usesSpare() ? b_.constInt(ir::Type::scalar(ir::Elem::I1), 1)
                       : b_.cmp(ir::CmpPred::Ne, body_.args[0], loop_.operands[0]);
  }
  /// The same of the stages of rings that have the barriers of late ones, or the others.
  bool isReleasedLate(bool late) const {
    return anyRing([&](const Ring &r) { return r.inStages && r.staysInFlight && r.isLate == late; });
  }
  /// Then the stage is given back after the next iteration's wait for them. With a stage to spare, beside the one in
  /// which warpgroups drift apart, at that iteration's end: after the wait is the softmax of attention, where the
  /// arrive cost 5 % (D=128, 128 x 64, 8 warps, 3 stages: docs/performance-history.md).
  bool isReleasedBehindWait() const { return isReleasedLate() && ahead_ + 2 >= static_cast<int64_t>(stages_); }

  ir::Builder b_;
  ir::Module &module_;
  ir::Op &loop_;
  ir::Block &body_;
  LoopSlice slice_;
  const TargetInfo &target_;
  const Options &options_;
  LoopRemarks remarks_;
  std::vector<Ring> rings_;
  std::vector<ir::Op *> dots_;
  AsyncDots waits_;
  Turns turns_ = Turns::Late;
  bool isDrained_ = false;                // as RingChoice::isDrained
  const ir::Op *firstStore_ = nullptr; // of a computed operand that has a single slot
  const ir::Op *oldWait_ = nullptr;    // the wait for the last iteration's asynchronous dots
  bool gathers_ = false;      // the threads of a producer copy what block copies cannot
  // the loop's own threads do: addresses may take indices that it loads, and what is staged may be loaded
  bool startsCopies_ = false;
  bool isBehindFirst_ = false; // RingChoice::isBehindFirst
  bool isBehindReads_ = false; // RingChoice::isBehindReads
  bool isBehindWait_ = false;  // RingChoice::isBehindWait
  const ir::Op *lastRead_ = nullptr; // RingChoice::lastRead
  uint32_t askedCrowd_ = 0;
  // by isBehindFirst_: bytes of tiles around the loop, which is as it was when it was found
  std::array<std::optional<uint64_t>, 2> around_;
  uint64_t bytesBeside_ = 0;   // of scratch and tiles of the body that are in no ring
  std::vector<const ir::Op *> stagedLoads_; // in program order
  int64_t ahead_ = 0;
  unsigned stages_ = 0;
  unsigned ctas_ = 1;                            // of a cluster, that fill the stages of all of them together
  StageBarriers barriers_;                       // null without block copies
  // carried: parity of the current stage; the stage before it, or which barrier is the spare one
  ir::Value *phase_ = nullptr, *last_ = nullptr;
  std::map<unsigned, ir::Value *> slot_;         // carried: current slot of rings of so many
};

} // namespace tegula::gpu
