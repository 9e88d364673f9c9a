// PipelinedLoop's sizes of rings: the bytes that they take, the candidates, and the choice by the blocks on an SM.
#include "gpu/loops/PipelinedLoop.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/Layouts.h"
#include "gpu/Work.h"
#include "gpu/loops/Crowd.h"
#include "gpu/shared/SharedMemory.h"
#include "gpu/shared/SharedNeeds.h"
#include "gpu/shared/Tiles.h"
#include "ir/Walk.h"
#include <algorithm>
#include <set>

namespace tegula::gpu {

using namespace ir;

/// The most bytes that lowering gives a conversion, if they are available.
static constexpr uint64_t mostOfScratch = 64 * 1024;

/// Bytes of the body's tiles that are in no ring, of its operations' scratch, of its block stores' buffers, and of
/// mbarriers. A conversion in a branch uses at most `mostInBranch` bytes at a time.
uint64_t PipelinedLoop::bytesOfBody(uint64_t mostInBranch) {
  const uint64_t barriers = hasStages() ? 1024 : bytesToSpare();
  auto isRing = [&](const Op &op) { return ringOfTile(op.result()) != nullptr; };
  const BesideRings rest = besideRings(module_, body_, target_, isRing, [&](const Block &b, uint64_t) {
    return &b == &body_ ? mostOfScratch : mostInBranch;
  });
  // A little scratch fits beside the mbarriers, which leave most of the bytes up to the next tile unused.
  constexpr uint64_t ofBarriers = 256, leastApart = SharedMemory::tileAlign;
  const bool areFew = hasStages() && stagesOf(loop_, options_) <= 4;
  const uint64_t beside =
      areFew ? std::min(rest.scratch + barriers, (rest.scratch + ofBarriers + leastApart - 1) / leastApart * leastApart)
             : rest.scratch + barriers;
  return rest.tiles + beside + rest.buffers;
}

/// The trip count of the loop if its bounds are constants; else a very large number.
int64_t PipelinedLoop::mostIterations() const {
  const std::optional<int64_t> start = constantInt(loop_.operands[0]), end = constantInt(loop_.operands[1]),
                               step = constantInt(loop_.operands[2]);
  constexpr int64_t many = 1 << 20;
  if (!start || !end || !step || *step <= 0 || *end <= *start)
    return many;
  return std::min(many, (*end - *start - 1) / *step + 1);
}

/// Sets the slots of each ring for the choice; returns the bytes of all rings. A ring of tiles that threads copy has at
/// most as many slots as the loop has iterations. Tiles that block copies bring form stages of one slot of each ring,
/// so those rings have the same number of slots.
uint64_t PipelinedLoop::giveSlots(const RingChoice &c) {
  ahead_ = c.ahead;
  turns_ = c.turns;
  stages_ = static_cast<unsigned>(ahead_) + 1 + c.slack;
  uint64_t bytes = 0;
  auto isRead = [&](const Ring &r) { // before copies start
    return (c.isBehindReads && (!c.lastRead || lastReadOf(r.source->result()) <= positionOf(body_, c.lastRead))) ||
           r.isReadFirst || (c.isBehindWait && r.isReadBeforeDots);
  };
  for (Ring &r : rings_) {
    bool runsOn = r.staysInFlight && !c.isDrained;
    unsigned computed = turns_ == Turns::Single ? 1 : turns_ == Turns::Early ? 2 : 2 + runsOn;
    r.slots = r.inStages ? stages_
              : r.isCopied
                  ? static_cast<unsigned>(std::min(mostIterations(), ahead_ + !isRead(r) + (runsOn && !c.isBehindWait)))
                  : computed;
    bytes += slotBytes(r.tile) * r.slots;
  }
  return bytes;
}

/// Applies the choice. Returns the bytes of shared memory that the loop then takes, with everything live beside it.
uint64_t PipelinedLoop::take(const RingChoice &c) {
  isBehindFirst_ = c.isBehindFirst;
  isBehindReads_ = c.isBehindReads;
  isBehindWait_ = c.isBehindWait;
  lastRead_ = c.lastRead;
  std::optional<uint64_t> &around = around_[isBehindFirst_];
  if (!around)
    around = tilesAround(loop_, placeOfPrologue());
  return bytesBeside_ + *around + giveSlots(c);
}

/// All candidates: the best first, the smallest last.
std::vector<RingChoice> PipelinedLoop::choices(int64_t wanted) const {
  std::vector<RingChoice> out;
  int64_t fewest = anyRing([](const Ring &r) { return r.isCopied; }) ? 1 : wanted;
  // One more stage lets warpgroups drift apart, so that one computes while the other's asynchronous dots run.
  unsigned most = hasStages() ? isReleasedLate() + (options_.numWarps >= 8) : 0;
  auto add = [&](int64_t ahead, Turns turns) {
    for (unsigned slack = most + 1; slack-- > 0;) {
      out.push_back({ahead, turns, slack});
      if (slack && turns == Turns::Late && hasFirstDot())
        out.push_back({ahead, turns, slack, false, true});
    }
  };
  for (int64_t ahead = wanted; ahead >= fewest; --ahead) {
    add(ahead, Turns::Late);
    add(ahead, Turns::Early);
    // Copies that start later, but at least two iterations ahead (torch.compile's template, H200, 128x128x128 by eight
    // warps: 162 -> 128 us; 128x256x128, one iteration ahead, 114 -> 139).
    if (canWaitFirst() && ahead > 1)
      out.push_back({.ahead = ahead, .turns = Turns::Late, .isBehindWait = true});
    if (hasFirstDot())
      out.push_back({ahead, Turns::Late, 0, false, true});
  }
  for (int64_t ahead = wanted; ahead >= fewest; --ahead)
    add(ahead, Turns::Single);
  if (canDrain())
    out.push_back({fewest, Turns::Late, 0, true, hasFirstDot()});
  return out;
}

/// Do all computed operands depend on another dot's result of the same iteration? The wait for that dot also waits for
/// the last iteration's dots.
bool PipelinedLoop::computesOfDots() const {
  std::unordered_set<const Value *> ofDots;
  for (const Op *op : body_.ops)
    if (std::ranges::find(dots_, op) != dots_.end() ||
        std::ranges::any_of(op->operands, [&](const Value *v) { return ofDots.count(v); }))
      ofDots.insert(op->results.begin(), op->results.end());
  return !anyRing([&](const Ring &r) { return !r.isCopied && !ofDots.count(r.source->operands[0]); });
}

bool PipelinedLoop::canWaitFirst() const {
  return startsCopies_ && usesGroups() && !hasStages() && !hasFirstDot() && waits_.oldDone && dots_.size() == 1 &&
         std::ranges::count_if(body_.ops, [](const Op *op) { return op->kind == OpKind::Dot; }) == 1 &&
         !anyRing([](const Ring &r) { return !r.isCopied; });
}

/// Do only dots read the tile, directly or through views? If the tile is unpacked first, copies in flight during the
/// unpacking are worth more than another block (int4 by bytes, 16 rows: 0.94).
static bool feedsDotsAsItIs(const Block &body, const Value *v) {
  return std::ranges::all_of(usersIn(body, v), [&](const Op *u) {
    return u->kind == OpKind::Dot || (isView(u->kind) && feedsDotsAsItIs(body, u->result()));
  });
}

bool PipelinedLoop::canStartBehindReads() const {
  if (!startsCopies_ || !usesGroups() || hasStages() || hasStaged() || !waits_.waits.empty() || hasFirstDot() ||
      options_.numCtas > 1)
    return false;
  const std::vector<Value *> &yields = body_.terminator()->operands;
  return std::ranges::all_of(rings_, [&](const Ring &r) {
    return r.isCopied && !r.feedsAsyncDot && feedsDotsAsItIs(body_, r.source->result()) &&
           !std::count(yields.begin(), yields.end(), r.source->result());
  });
}

bool PipelinedLoop::canStartBetweenReads() const {
  if (!startsCopies_ || !usesGroups() || hasStages() || hasStaged() || !waits_.waits.empty() || hasFirstDot() ||
      options_.numCtas > 1)
    return false;
  const std::vector<Value *> &yields = body_.terminator()->operands;
  return std::ranges::all_of(rings_,
                             [&](const Ring &r) {
                               return r.isCopied && !std::count(yields.begin(), yields.end(), r.source->result());
                             }) &&
         !anyOp(body_, [](const Op &op) { return op.kind == OpKind::Dot && isAsyncMma(op); });
}

/// The position after which nothing in the body reads a load's result, directly or through views. Dots count as
/// readers: the reads of a dot's operands stand between its instructions.
size_t PipelinedLoop::lastReadOf(const Value *v) const {
  size_t last = 0;
  for (const Op *user : usersIn(body_, v)) {
    last = std::max(last, positionOf(body_, user));
    if (isView(user->kind))
      last = std::max(last, lastReadOf(user->result()));
  }
  return last;
}

/// Last reads of tiles that have dots before them and after them, in program order.
std::vector<const Op *> PipelinedLoop::placesBetweenReads() const {
  std::set<size_t> reads;
  for (const Ring &r : rings_)
    reads.insert(lastReadOf(r.source->result()));
  auto isDot = [](const Op *op) { return op->kind == OpKind::Dot; };
  std::vector<const Op *> out;
  for (size_t at : reads)
    if (const auto behind = body_.ops.begin() + static_cast<long>(at) + 1;
        std::any_of(body_.ops.begin(), behind, isDot) && std::any_of(behind, body_.ops.end(), isDot))
      out.push_back(body_.ops[at]);
  return out;
}

/// Blocks that fit on an SM by registers: the results of the loop's dots, and the other values of such a loop.
uint64_t PipelinedLoop::blocksByRegisters() const {
  const int64_t threads = int64_t{target_.lanes()} * options_.numWarps, needed = registersOfDots(body_, threads);
  uint64_t blocks = 1;
  while (target_.registerLimit(static_cast<unsigned>(threads * static_cast<int64_t>(blocks + 1))) >= needed)
    ++blocks;
  return blocks;
}

/// Blocks that fit on an SM by shared memory with this choice, which it applies.
uint64_t PipelinedLoop::blocksByMemory(const RingChoice &c) {
  constexpr uint64_t reserved = 1024; // of each block on an SM
  return (target_.sharedLimit() + reserved) / (take(c) - bytesToSpare() + reserved);
}

/// Does the grid run sooner with `many` blocks on a multiprocessor than with `few`? Makes the kernel's code depend on
/// that (gpu/loops/Crowd.h). If options.askedCrowd already holds two numbers, the answer is for those.
bool PipelinedLoop::gainsInCrowd(uint64_t few, uint64_t many) {
  askedCrowd_ = options_.askedCrowd ? options_.askedCrowd
                                    : Crowd{static_cast<uint32_t>(few), static_cast<uint32_t>(many)}.asked();
  return Crowd::of(askedCrowd_).gains(options_.crowd);
}

/// Chooses smaller rings where that lets another block share the SM. With fewer than two warpgroups on an SM the tensor
/// cores idle while a warpgroup computes. Four warpgroups hide more latency than stages do, above all at the beginning
/// and the end of a program: slots beyond those that were asked for are not worth losing a block. Beside a producer,
/// whose copies go on meanwhile, two warpgroups are enough. A loop inside a loop over tiles is left alone, as its
/// kernel usually has as many programs as there are SMs. The exception is attention with four warps, which has two
/// programs for each SM (a counter of tiles, D=128, 64x64, H200: 341 TFLOP/s with one block for 148 KB, Triton's two
/// 467). A loop that ends tiles itself, in a branch that stores, is left alone as well.
RingChoice PipelinedLoop::withNeighbours(const RingChoice &c) {
  const unsigned enoughWarps = startsCopies_ ? 16 : 8;
  bool isOfTiles = false;
  for (const Op *op = loop_.parent->parent->op; op; op = op->parent->parent->op)
    isOfTiles |= goesThroughTiles(*op);
  // CTAs that only share the iterations of a loop each compute a full tile. Clusters of two fit on all SMs. Of clusters
  // of 4 and 8 with one block on an SM only 30 and 15 run at once (docs/hopper.md), so that grids of 32 and 16 take
  // twice as long (512^2 x 16384 by 128 x 64 in 4 parts 49 -> 34 us, by 128 x 128 in 8 50 -> 36). But TMA copies gain
  // more from stages: fewer stages took 35 -> 45 us there.
  const bool sharesTiles = options_.numCtas > 1 && (!loop_.splitParts() || options_.numCtas == 2 || hasStages());
  const bool endsTiles =
      std::ranges::any_of(body_.ops, [](const Op *op) { return !op->regions.empty() && writesGlobal(*op); });
  if (options_.numWarps >= enoughWarps || sharesTiles || endsTiles ||
      (isOfTiles && (dots_.size() < 2 || options_.numWarps >= 8)))
    return c;
  const uint64_t most = std::min<uint64_t>(enoughWarps / options_.numWarps, blocksByRegisters());
  auto blocks = [&](const RingChoice &x) { return std::min(most, blocksByMemory(x)); };
  RingChoice best = c;
  // In a grid too small to fill the extra blocks, a block is faster with its larger rings.
  auto considerForCrowds = [&](const RingChoice &x) {
    if (blocks(x) <= blocks(best))
      return;
    if (gainsInCrowd(blocks(best), blocks(x)))
      best = x;
  };
  auto consider = [&](const RingChoice &x) {
    if (blocks(x) > blocks(best))
      best = x;
  };
  for (bool isBehindFirst : {false, true})
    if (!isBehindFirst || hasFirstDot()) {
      for (unsigned slack = c.slack + isBehindFirst; slack-- > 0;)
        consider({c.ahead, c.turns, slack, false, isBehindFirst});
      if (canDrain())
        consider({c.ahead, c.turns, 0, true, isBehindFirst});
    }
  // A tile that is read before the dots has one slot less then. Elsewhere a drained loop is usually faster
  // (convolutions 1.1-1.2, products with LoRA 1.1, weights' gradients 0.95).
  if (canWaitFirst() && anyRing([](const Ring &r) { return r.isReadBeforeDots; }))
    consider({.ahead = c.ahead, .turns = c.turns, .isBehindWait = true});
  // One more block hides the latency of copies that start later, if the grid is large enough to have that block (int8,
  // 16 rows, 32 programs on an H200: 61 -> 74 us, 2048 programs 366 -> 342).
  auto behind = [&](const Op *lastRead) {
    return RingChoice{.ahead = c.ahead, .turns = c.turns, .isBehindReads = true, .lastRead = lastRead};
  };
  // As early as possible where several dots read one after the other.
  const std::vector<const Op *> places = canStartBetweenReads() ? placesBetweenReads() : std::vector<const Op *>{};
  auto between = std::ranges::find_if(places, [&](const Op *place) { return blocks(behind(place)) > blocks(best); });
  if (between != places.end())
    considerForCrowds(behind(*between));
  else if (canStartBehindReads() && c.ahead > 1)
    considerForCrowds(behind(nullptr));
  // num_stages covers loads of indices and of the rows that the indices select (Triton's AssignLatencies gives each
  // level of indirection a part of num_stages). So the rows need fewer stages, and here the indices take no slots. One
  // iteration ahead is enough where two blocks run instead of one (a sparse convolution's weights, H200, 128x64 by
  // eight warps 53 -> 45 us), but not for three instead of two (34 -> 41).
  const bool isOneDot = std::ranges::count_if(body_.ops, [](const Op *op) { return op->kind == OpKind::Dot; }) == 1;
  if (isOneDot && startsCopies_ && canDrain() && !hasStaged() && slice_.hasLoads())
    for (int64_t ahead = c.ahead - 1, fewest = c.ahead - c.ahead / 2; ahead >= fewest; --ahead)
      if (ahead > 1 || blocks(best) == 1)
        consider({ahead, c.turns, 0, true});
  // Early has two slots: with a single one all threads would wait for the last iteration's dots before they store.
  if (c.turns == Turns::Late && anyRing([](const Ring &r) { return !r.isCopied; }))
    consider({c.ahead, Turns::Early, c.slack});
  // Dots in flight across the back edge hide the next iteration's computation. One more block hides more, if the grid
  // is large enough to have it (bf16 weights of int8, H200, 64x64x128 by four warps 569 -> 431 us; int4 by tables for
  // 16 rows, 64 programs, 181 -> 275). Operands computed from another dot's result wait for that dot in any case.
  if (canDrainComputed())
    for (bool isBehindFirst : {false, true})
      if (const RingChoice drained{c.ahead, Turns::Single, 0, true, isBehindFirst}; !isBehindFirst || hasFirstDot()) {
        if (computesOfDots())
          consider(drained);
        else
          considerForCrowds(drained);
      }
  return best;
}

/// Copies farther ahead where few bytes are in flight on an SM and the slots cost no block: small tiles by many warps,
/// or few stages (half sums 64x64x16 by eight warps, H200, one stage: 1243 -> 1118 us; fp8 attention D=64 64x32, two
/// stages 1567 -> 1465).
RingChoice PipelinedLoop::withEnoughUnderWay(const RingChoice &c) {
  const uint64_t iteration = bytesOfIteration();
  if (!startsCopies_ || hasStages() || !iteration)
    return c;
  // More blocks may run than registers are planned for here (nvidia/occupancy/ProductBlocks.cpp), up to sixteen warps.
  constexpr uint64_t mostWarps = 16;
  auto blocks = [&](const RingChoice &x) {
    return std::min(std::max<uint64_t>({1, blocksByRegisters(), mostWarps / options_.numWarps}), blocksByMemory(x));
  };
  RingChoice best = c;
  for (RingChoice more = c; blocks(c) * iteration * static_cast<uint64_t>(best.ahead) < bytesInFlight &&
                            ++more.ahead < mostIterations() && blocks(more) >= blocks(c);
       best = more)
    ;
  return best;
}

/// Bytes that are copied for one iteration.
uint64_t PipelinedLoop::bytesOfIteration() const {
  uint64_t bytes = 0;
  for (const Ring &r : rings_)
    bytes += r.isCopied && !r.isStaged ? slotBytes(r.tile) : 0;
  return bytes;
}

/// Drops the spare stage for a dot of few warps whose block copies are far ahead with many bytes in flight on an SM.
/// Where the copies are bound by L2, more of them in flight arrive later (H200, 64x256x32 by four warps, four stages: B
/// transposed 8192^3 2258 -> 2004 us, 4096^3 272 -> 254, row-major 228 -> 215). The spare stage pays if copies are one
/// or two iterations ahead (TF32 128x128x32, three stages, 577 us with it, 678 without; attention 64x128, two, 1125,
/// 1413), and in a grid that has one block on an SM (1024^2 x 8192 70 -> 86).
RingChoice PipelinedLoop::withoutIdleStage(const RingChoice &c) {
  constexpr uint64_t much = 96 * 1024;
  constexpr int64_t far = 3;
  if (!startsCopies_ || !hasStages() || !c.slack || options_.numWarps >= 8 || dots_.size() != 1 || c.ahead < far)
    return c;
  RingChoice tight = c;
  tight.slack = 0;
  const uint64_t blocks = std::min(blocksByRegisters(), blocksByMemory(tight));
  if (blocks * static_cast<uint64_t>(c.ahead) * bytesOfIteration() < much)
    return c;
  if (blocks < 2)
    return tight;
  return gainsInCrowd(1, blocks) ? tight : c;
}

const Op *PipelinedLoop::placeOfEarlyWait() const {
  for (const Op *op : body_.ops)
    for (const Ring &r : rings_)
      if (!r.isCopied) {
        // Single: the store to the slot. Early: the first dot that reads a computed operand; after its barrier no
        // thread reads the last iteration's slot.
        const std::vector<Value *> &used = op->operands;
        bool reads = op->kind == OpKind::Dot && std::find(used.begin(), used.end(), r.source->result()) != used.end();
        if (turns_ == Turns::Single ? op == r.source : turns_ == Turns::Early && reads)
          return op;
      }
  return nullptr;
}

/// Gives up the rings of tiles that pass through registers (a bias) in favour of the tiles of asynchronous dots: they
/// stay loads in the iteration that uses them. False if there are not both kinds.
bool PipelinedLoop::leaveOthers() {
  auto isOther = [](const Ring &r) { return r.isCopied && !r.inStages && !r.isStaged && !r.feedsAsyncDot; };
  return anyRing([](const Ring &r) { return r.isCopied && r.feedsAsyncDot; }) && std::erase_if(rings_, isOther) > 0;
}

/// Finds tiles that are only read element by element before the first asynchronous dot. Where that dot reads a computed
/// operand, its barrier separates these reads from the copies, which start after the dot.
void PipelinedLoop::findReadFirst() {
  const Op *first = dots_.empty() ? nullptr : dots_.front();
  auto isComputed = [&](const Value *v) {
    const Ring *r = v->type.isShared ? ringOfTile(v) : nullptr;
    return r && !r->isCopied;
  };
  if (!first || first->parent != &body_ || hasFirstDot())
    return;
  const bool hasBarrier = std::ranges::any_of(first->operands, isComputed);
  const size_t place = positionOf(body_, first);
  for (Ring &r : rings_) {
    r.isReadBeforeDots = r.isCopied && !r.inStages && !r.isStaged && !r.feedsAsyncDot &&
                         std::ranges::all_of(usersIn(body_, r.source->result()), [&](const Op *u) {
                           return u->parent == &body_ && u->has(traits::Elementwise) && positionOf(body_, u) < place;
                         });
    r.isReadFirst = hasBarrier && r.isReadBeforeDots;
  }
}

bool PipelinedLoop::fitMemory() {
  findReadFirst();
  const uint64_t limit = target_.sharedLimit();
  const int64_t wanted = std::clamp<int64_t>(stagesOf(loop_, options_) - 1, 1, mostIterations());
  const std::vector<RingChoice> all = choices(wanted);
  // The bytes beside the rings are the same for all candidates, but scratch in branches, which many iterations skip,
  // shrinks before the rings do.
  std::vector<uint64_t> beside;
  for (uint64_t most : {mostOfScratch, mostOfScratch / 2, mostOfScratch / 4})
    beside.push_back(bytesOfBody(most));
  auto first = std::find_if(all.begin(), all.end(), [&](const RingChoice &c) {
    return std::any_of(beside.begin(), beside.end(),
                       [&](uint64_t bytes) { return bytesBeside_ = bytes, take(c) <= limit; });
  });
  if (first == all.end()) {
    if (leaveOthers())
      return fitMemory();
    remarks_.shortOfMemory(0, wanted, take(all.back()), limit);
    return false;
  }
  if (first->ahead < wanted) {
    uint64_t needed = take({wanted, first->turns});
    for (const RingChoice &c : all)
      if (c.ahead == wanted && c.turns == first->turns && c.isBehindWait)
        needed = std::min(needed, take(c));
    remarks_.shortOfMemory(first->ahead, wanted, needed, limit);
  }
  const RingChoice chosen = withoutIdleStage(withEnoughUnderWay(withNeighbours(*first)));
  take(chosen);
  const Op *early = chosen.isDrained ? body_.terminator() : placeOfEarlyWait();
  if (early)
    waits_ = placeDotWaits(body_, dots_, early);
  if (chosen.isDrained)
    for (Ring &r : rings_)
      r.staysInFlight = false;
  isDrained_ = chosen.isDrained;
  firstStore_ = turns_ == Turns::Single && !isDrained_ ? early : nullptr;
  findLate();
  return true;
}

void PipelinedLoop::setStages(unsigned n) {
  stages_ = n;
  for (Ring &r : rings_)
    if (r.inStages)
      r.slots = n;
  findLate();
}

} // namespace tegula::gpu
