// One loop whose operands come through rings of tiles in shared memory. plan() decides which loads are copied, which
// dots are asynchronous and how many slots rings have. The other methods rewrite the body, as far as that does not
// depend on which threads start the copies: the loop's own (PipelineLoops.cpp) or a producer's (SpecializeWarps.cpp).
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

/// Slots for tiles in shared memory, filled in turn: by copies some iterations ahead, or by the iteration itself.
struct Ring {
  ir::Op *source;             // the load, the to_shared, or the convert of a staged tile
  ir::Type tile;
  bool isCopied = false;      // filled ahead: by async_copy or tma_copy, or staged
  // filled in stages, which mbarriers track: by block copies, or by the threads of a producer
  bool inStages = false;
  // stages only: the second dot of a loop reads it, not the first; it has barriers of its own
  bool isLate = false;
  bool isStaged = false;      // few elements, loaded and computed ahead, and stored by threads for other threads
  bool staysInFlight = false; // an asynchronous dot may read a slot after the end of its iteration
  bool feedsAsyncDot = false;    // of copied rings only
  // async_copy only: all threads have read the tile when copies start, so copies may fill this iteration's slot
  bool isReadFirst = false;
  // async_copy only: the same once all threads synchronize after the first asynchronous dot
  bool isReadBeforeDots = false;
  unsigned slots = 0;
  ir::Value *memory = nullptr;
};

/// mbarriers of the stages: `full` (the bytes have arrived) and `empty` (all warps that read them are done). Late rings
/// have their own: the first dot waits for its own tiles only, and those are free as soon as it is done, an iteration
/// before the second dot's if the second dot stays in flight.
struct StageBarriers {
  ir::Value *full = nullptr, *empty = nullptr;
  ir::Value *lateFull = nullptr, *lateEmpty = nullptr; // of late rings; null if there are none

  ir::Value *fullOf(bool late) const { return late ? lateFull : full; }
  ir::Value *emptyOf(bool late) const { return late ? lateEmpty : empty; }
};
/// How many mbarriers there are, and the arrivals that each counts. Where an iteration releases the previous
/// iteration's stage, the empty barriers have a spare one after those of the stages. The first iteration has no stage
/// to release and arrives at the spare one, because ptxas places a conditional arrival late in the iteration
/// (docs/performance-history.md). No thread waits for the spare barrier, and it takes any number of arrivals, as each
/// phase that completes begins the next one (PTX ISA, "Phase completion of the mbarrier object").
struct StageBarrierCounts {
  unsigned stages = 0;
  unsigned consumers = 0;            // warps of a CTA that release a stage
  bool hasLate = false;              // are there late rings?
  std::array<bool, 2> hasSpare = {}; // of the empty barriers: of late rings ([true]) and of the others
  unsigned ctas = 1;                 // CTAs whose warps release a stage together
  unsigned fillers = 1;              // threads that arrive when a stage is full

  /// Bytes of shared memory.
  uint64_t bytes() const { return uint64_t{8} * ((hasLate ? 4 : 2) * stages + hasSpare[false] + hasSpare[true]); }
};
StageBarriers makeStageBarriers(ir::Builder &b, const StageBarrierCounts &c);

/// Slots of the rings of computed operands, from most bytes to fewest.
enum class Turns : uint8_t {
  Late,   // two slots, or three where an asynchronous dot may still read one at the end of an iteration
  Early,  // two slots: the last iteration's asynchronous dots are waited for before the barrier of this one's dots
  Single, // one slot: all threads wait for those dots and synchronize before they store the operand
};

/// A candidate for the sizes of rings. A slot is free after the wait for the asynchronous dots that read it. That wait
/// is in the next iteration for dots that stay in flight at the end of their own.
struct RingChoice {
  int64_t ahead;         // iterations from a copy to its use
  Turns turns;
  // stages beyond ahead + 1: the first lets copies start before the wait for the last iteration's asynchronous dots
  unsigned slack = 0;
  // no asynchronous dot is in flight at the end of an iteration, so async_copy needs no extra slot for it
  bool isDrained = false;
  // the prologue's copies start after the first iteration's dot, which rotateDots moved out of the loop, and reuse the
  // bytes of its tile
  bool isBehindFirst = false;
  // copies start at the end of an iteration, or after lastRead, and after a second barrier: they fill the slots that
  // this iteration has read
  bool isBehindReads = false;
  // async_copy starts after the wait for the last iteration's asynchronous dots and a second barrier: the copies fill
  // the slots that those dots have read
  bool isBehindWait = false;
  const ir::Op *lastRead = nullptr; // with isBehindReads: tiles read later have one more slot; null: there are none
};

class PipelinedLoop {
public:
  PipelinedLoop(ir::Module &m, ir::Op &loop, const TargetInfo &target, const Options &options, DiagEngine *remarks)
      : b_(m), module_(m), loop_(loop), body_(*loop.region(0)), slice_(loop), target_(target), options_(options),
        remarks_(loop, options, remarks) {
    b_.setFolding(false);
  }

  /// Makes all decisions. The IR stays the same but for the place of arithmetic and the results that branches pass on.
  /// False if the loop is not pipelined (remarks say why).
  bool plan();

  ir::Op &loop() const { return loop_; }
  const std::vector<Ring> &rings() const { return rings_; }
  /// The number of stages: slots of every ring in stages. setStages() may lower it, down to two.
  unsigned stages() const { return stages_; }
  void setStages(unsigned n);
  /// Options::askedCrowd as this loop needs it.
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
  /// Bytes of shared memory reserved for uses that bytesOfBody() does not count.
  uint64_t bytesToSpare() const { return hasStages() ? 0 : 512; }
  uint64_t bytesOfBody(uint64_t mostInBranch);
  int64_t mostIterations() const;
  uint64_t giveSlots(const RingChoice &c);
  uint64_t take(const RingChoice &c);
  std::vector<RingChoice> choices(int64_t wanted) const;
  /// Did rotateDots move a dot out of the loop, and may copies start after it?
  bool hasFirstDot() const { return startsCopies_ && opsOfFirstDot(loop_) > 0; }
  /// May an iteration end with a wait for its asynchronous dots? Not where operands are computed: the last iteration's
  /// dots run beside that computation.
  bool canDrain() const {
    return usesGroups() && !anyRing([](const Ring &r) { return !r.isCopied; });
  }
  /// May copies start after the wait for the last iteration's dot and a second barrier after that wait? Only where the
  /// loop has one dot, which stays in flight, and no operand is computed.
  bool canWaitFirst() const;
  /// The same as canDrain() where operands are computed: threads that copy synchronize at the top of each iteration,
  /// where the only slot is free.
  bool canDrainComputed() const { return usesGroups() && !hasStages(); }
  bool computesOfDots() const;
  /// May copies start after all reads of this iteration's tiles? Only where threads copy the tiles and threads read
  /// them, as for mma.sync.
  bool canStartBehindReads() const;
  /// May copies start between reads? Then they run beside the products after that place.
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
  /// The operation before which all asynchronous dots of the last iteration must be done; null: the uses of their
  /// results decide.
  const ir::Op *placeOfEarlyWait() const;
  template <typename Test> bool anyRing(Test test) const { return std::any_of(rings_.begin(), rings_.end(), test); }
  bool hasStages() const { return anyRing([](const Ring &r) { return r.inStages; }); }
  /// Are there copies by the loop's threads (async_copy), which are committed in groups?
  bool usesGroups() const {
    return anyRing([](const Ring &r) { return r.isCopied && !r.inStages && !r.isStaged; });
  }
  /// Valid once the number of stages is known.
  bool hasLate() const {
    return anyRing([](const Ring &r) { return r.isLate; });
  }
  bool hasStaged() const {
    return anyRing([](const Ring &r) { return r.isStaged; });
  }

  // ---- PipelinedBody.cpp: values, created at the builder's position
  ir::Value *carry(ir::Value *init, std::string name);
  void carryOn(const ir::Value *arg, ir::Value *next);
  /// (slot + distance) mod slots, for distance < slots.
  ir::Value *nextSlot(ir::Value *slot, unsigned slots, int64_t distance);
  ir::Value *barrierAt(ir::Value *ring, ir::Value *slot) {
    return b_.create1(ir::OpKind::SharedSlot, {ring, slot}, ring->type);
  }
  void waitFor(ir::Value *ring, ir::Value *slot, ir::Value *phase, bool one);
  /// The parity for the stage after `slot`: flipped where the slots wrap around.
  ir::Value *flip(ir::Value *phase, ir::Value *slot, unsigned slots);
  /// Creates the copies that fill one stage. `of` maps the operands of the loads to those of the iteration that the
  /// stage is for. Waits first until the stage is free, if `freePhase` is not null.
  void fillStage(ir::Value *slot, ir::Value *freePhase, const std::function<ir::Value *(ir::Value *)> &of);

  // ---- PipelinedBody.cpp: the body
  /// Adds slots and the parity of stages as loop-carried values: the loop's first stage is `slot` with parity `phase`.
  void carryStages(ir::Value *slot, ir::Value *phase);
  /// At the end of the body (at the builder): releases this iteration's stage, or the last iteration's if asynchronous
  /// dots may still read this one's; advances slots and parity.
  void nextStage();
  /// After the wait for the last iteration's asynchronous dots: releases that iteration's stage, unless nextStage()
  /// does so (isReleasedBehindWait).
  void releaseBehindWait();
  void release(bool late, ir::Value *stage, ir::Value *when);
  /// After the loop and its wait (at the builder): releases the last stage.
  void releaseLastStage();
  void insertWaits();
  ir::Op *wait(ir::Block &block, size_t position, int64_t pending, const std::vector<ir::Value *> &values);
  /// Replaces loads by their tiles; stores computed tiles to the next slot. `top`: position in the body from which the
  /// copied tiles are complete.
  void useRings(size_t top);
  void useCopies(const Ring &r, size_t top);
  /// Waits for late rings before the second dot, if there are any. Call it after useRings().
  void waitForLate();
  void storeInTurn(const Ring &r);
  bool readsOwnCopies(const ir::Op &load) const;
  void dropFirstBarrier();
  /// Before the operations that rotateDots moved out of the loop, so that the first copies run beside their load; after
  /// them with isBehindFirst_.
  size_t placeOfPrologue() const;
  /// After the loop and the wait for its dots.
  size_t placeBehind() const;
  ir::Value *resultOf(const ir::Value *arg) const { return loop_.results[arg->index - 1]; }
  /// Is the tile the same in all CTAs of the cluster, so that each CTA can multicast a part of it?
  bool isShared(const Ring &r, unsigned ctas) const;
  /// Asynchronous dots of an iteration may still read its stage when it ends.
  bool isReleasedLate() const { return isReleasedLate(false) || isReleasedLate(true); }
  std::array<bool, 2> hasSpare() const {
    return {usesSpare() && isReleasedLate(false), usesSpare() && isReleasedLate(true)};
  }
  /// Do releases use the spare barrier? Only where the arrival is to be early: at the end of an iteration the condition
  /// keeps ptxas from moving it up to the wait (values by columns 128x64, five stages, H200: 317 TFLOP/s at the end,
  /// 301 early).
  bool usesSpare() const {
    constexpr unsigned twoWarpgroups = 8;
    return !gathers_ && dots_.size() > 1 && options_.numWarps >= twoWarpgroups && isReleasedBehindWait();
  }
  /// Is there a stage to release: that of the iteration before this one, or the spare one?
  ir::Value *hasLast() {
    return usesSpare() ? b_.constInt(ir::Type::scalar(ir::Elem::I1), 1)
                       : b_.cmp(ir::CmpPred::Ne, body_.args[0], loop_.operands[0]);
  }
  /// The same for the stages of late rings, or of the others.
  bool isReleasedLate(bool late) const {
    return anyRing([&](const Ring &r) { return r.inStages && r.staysInFlight && r.isLate == late; });
  }
  /// Is such a stage released right after the next iteration's wait for those dots? With one more stage to spare it is
  /// released at that iteration's end: the softmax of attention follows the wait, and an arrival there cost 5 %
  /// (D=128, 128 x 64, 8 warps, 3 stages: docs/performance-history.md).
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
  bool gathers_ = false;      // the threads of a producer copy loads that block copies cannot
  // the loop's own threads start the copies: addresses may depend on loaded indices, and staged tiles are possible
  bool startsCopies_ = false;
  bool isBehindFirst_ = false; // RingChoice::isBehindFirst
  bool isBehindReads_ = false; // RingChoice::isBehindReads
  bool isBehindWait_ = false;  // RingChoice::isBehindWait
  const ir::Op *lastRead_ = nullptr; // RingChoice::lastRead
  uint32_t askedCrowd_ = 0;
  // by isBehindFirst_: bytes of tiles around the loop, computed once
  std::array<std::optional<uint64_t>, 2> around_;
  uint64_t bytesBeside_ = 0;   // of scratch, and of tiles of the body that are in no ring
  std::vector<const ir::Op *> stagedLoads_; // in program order
  int64_t ahead_ = 0;
  unsigned stages_ = 0;
  unsigned ctas_ = 1;                            // CTAs of a cluster that together fill the stages of all of them
  StageBarriers barriers_;                       // null without block copies
  // carried: parity of the current stage; the stage before it, or which barrier is the spare one
  ir::Value *phase_ = nullptr, *last_ = nullptr;
  std::map<unsigned, ir::Value *> slot_;         // carried: current slot, by the ring's number of slots
};

} // namespace tegula::gpu
