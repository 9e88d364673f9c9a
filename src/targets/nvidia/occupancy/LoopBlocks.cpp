// See LoopBlocks.h.
#include "targets/nvidia/occupancy/LoopBlocks.h"
#include "gpu/Work.h"
#include <algorithm>

namespace tegula::nvidia {

namespace sm = abi::multiprocessor;

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;
using tegula::gpu::bytesInFlight;
using tegula::gpu::RowsAgain;

bool isPersistent(const Block &b) {
  const auto isNumberOfPrograms = [](const Value *v) {
    while (v->def && (v->def->kind == OpKind::SExt || v->def->kind == OpKind::ZExt || v->def->kind == OpKind::Trunc))
      v = v->def->operands[0];
    return v->def && v->def->kind == OpKind::NumPrograms && v->def->axis() == 0;
  };
  return std::ranges::any_of(b.ops, [&](const Op *op) {
    return op->kind == OpKind::For
               ? isNumberOfPrograms(op->operands[2])
               : op->kind == OpKind::If &&
                     std::ranges::any_of(op->regions, [](const ir::Region *r) { return isPersistent(*r->block); });
  });
}

HeldIterations heldIterations(const Pressure &pressure, size_t row) {
  const RowsAgain &again = pressure.rows[row].again;
  return {again.bytes, again.isNarrow, static_cast<unsigned>(pressure.rows.size()), pressure.data};
}

Holding mostInL2(const Pressure &pressure, const Holders &holders, const Options &options, const Known &known) {
  unsigned leastWarps = 16; // that keep the memory busy; narrow elements take twice the time to compute
  uint64_t bytes = 0, leastBlocks = 1;
  size_t longest = 0;
  for (size_t i = 0; i < pressure.rows.size(); ++i) {
    if (const uint64_t row = pressure.rows[i].again.bytes * static_cast<uint64_t>(known.rowTrips[i]); row > bytes)
      bytes = row, longest = i;
    if (pressure.rows[i].again.isNarrow)
      leastWarps = 32;
    // What is under way at once: exponentials leave less of it.
    constexpr uint64_t underWay = 16 << 10, besideSpecials = 24 << 10;
    const bool isSpecial =
        std::ranges::any_of(pressure.iterations, [](const Iteration &it) { return it.specials > 0; });
    leastBlocks = std::max(leastBlocks, ((isSpecial ? besideSpecials : underWay) + pressure.rows[i].again.bytes - 1) /
                                            pressure.rows[i].again.bytes);
  }
  // A grid that runs at once has no blocks that could wait.
  if (bytes && holders.canHold)
    return blocksThatHold(heldIterations(pressure, longest), known.rowTrips[longest], options.numWarps, known.blocks,
                          holders.mostCtas);
  if (!bytes || bytes > bytesInL2 || (known.blocks && known.blocks * options.numWarps <= sm::threads / sm::lanes))
    return {};
  const uint64_t blocks =
      std::max({bytesInL2 / bytes, leastBlocks, uint64_t{(leastWarps + options.numWarps - 1) / options.numWarps}});
  return {blocks <= mostLimited && blocks * bytes <= mostInAnyCase ? static_cast<unsigned>(blocks) : 0};
}

namespace {

constexpr uint64_t mostUnrolled = 4;         // iterations, by the assembler
// How many blocks a grid has is often not known. Where it does not fill the multiprocessors, or ends in a part of them,
// loads of later iterations keep memory busy and blocks that are not there do not:
// that many warps have enough under way. Matrix times vector, 16 x 64 floats by 4 warps, 8192 rows, are four blocks:
// asking for twelve left 64 bytes of a thread under way of 192, 122 us for 75 (H200).
constexpr unsigned warpsOfFew = 16;
constexpr unsigned fewest = 16;    // registers for addresses
constexpr unsigned largeLoad = 16; // registers: programs that load much at once are few, and do not fill the SM
// Registers that may be missing where all warps are worth a try (runtime/cuda/Assembler.h). RMS norm of 1024 floats,
// 8192 at a time by 16 warps, H200: 40 registers 153 us, 32 without spills 133; moments of 16 columns, 256 rows at a
// time by 16 warps in bf16: 64 registers 81 us, 40 and one spilled 69.
constexpr unsigned aFew = 4;

/// Registers of an iteration without loads of others: what is alive may be what was loaded, or a sum of it.
unsigned forOne(const Iteration &it, unsigned loads) { return it.live + (it.live < loads ? loads : 0) + fewest; }

/// Asks for as many blocks as have the registers that are wanted.
class LoopRule {
public:
  LoopRule(const Pressure &pressure, const Holders &holders, unsigned most, const Options &options, const Known &known);
  unsigned blocks() const;

private:
  template <typename Fn> bool all(const Fn &fn) const { return std::ranges::all_of(pressure_.iterations, fn); }
  template <typename Fn> bool any(const Fn &fn) const { return std::ranges::any_of(pressure_.iterations, fn); }
  int64_t tripsOf(const Iteration &it) const {
    return known_.trips[static_cast<size_t>(&it - pressure_.iterations.data())];
  }
  unsigned mostBlocks(const Holders &holders, unsigned most) const;
  unsigned overhead() const;
  bool countsStraightCode() const;
  unsigned needOf(const Iteration &it, unsigned blocks, unsigned warps) const;
  unsigned needOfCopies(const Iteration &it, unsigned warps) const;
  uint64_t iterationsAhead(const Iteration &it, unsigned blocks, unsigned warps) const;
  bool takeAllWarps(unsigned blocks, unsigned warps, unsigned given) const;

  const Pressure &pressure_;
  const Options &options_;
  const Known &known_;
  bool waits_;      // some loop waits for memory
  // all that do are copies: no load of a later iteration is moved over a store, so registers for it are of no use
  bool onlyStores_;
  bool areSingle_;  // all loops run once
  // Three quarters of the warps with loads ahead are faster than all without (norms, sums). But not where each
  // iteration waits for a quotient of the one before: running moments of 32768 columns, 128 at a time by four warps in
  // bf16, H200: 33 registers and twelve blocks 487 us, 29 and sixteen 376.
  bool isChain_;
  unsigned overhead_, least_, most_; // registers beside tiles; of a thread at all; blocks
};

LoopRule::LoopRule(const Pressure &pressure, const Holders &holders, unsigned most, const Options &options,
                   const Known &known)
    : pressure_(pressure), options_(options), known_(known) {
  waits_ = any(&Iteration::waitsForMemory);
  onlyStores_ = waits_ && all([](const Iteration &it) { return it.stores || !it.waitsForMemory(); });
  areSingle_ = !pressure.iterations.empty() && all([&](const Iteration &it) { return tripsOf(it) == 1; });
  isChain_ = waits_ && !onlyStores_ && all([](const Iteration &it) {
               return (it.divides && it.largestLoad < largeLoad) || it.stores || !it.waitsForMemory();
             });
  overhead_ = overhead();
  least_ = waits_ && !onlyStores_ && !isChain_ && !areSingle_ ? 40 : 32;
  most_ = mostBlocks(holders, most);
}

// Addresses, chains in flight; measured on rows of softmax and layer_norm.
unsigned LoopRule::overhead() const {
  constexpr unsigned manyWords = 48, stepByStep = 32, behindLoops = 40, usual = 22, mostTogether = 18;
  unsigned out = usual;
  if (pressure_.exchangesInLoops)
    out = pressure_.data >= manyWords ? stepByStep : behindLoops; // chains of many elements go one after the other
  else if (pressure_.exchanges && pressure_.iterations.empty() && pressure_.hasLoop)
    out = behindLoops; // after loops that take the time, exchanges may as well go step by step
  else if (isChain_ || (areSingle_ && all(&Iteration::waitsForMemory)))
    out = fewest;
  if (pressure_.exchanges && !pressure_.hasLoop) // some are under way together
    out += std::min(pressure_.passing / 4, mostTogether);
  return out;
}

unsigned LoopRule::mostBlocks(const Holders &holders, unsigned most) const {
  // Of a grid that leaves most warps of a multiprocessor idle each block has the registers of those that are not there,
  // where loops have a use for them.
  const bool isFew = known_.blocks && known_.blocks * options_.numWarps <= warpsOfFew;
  if (isFew &&
      any([&](const Iteration &it) { return it.waitsForMemory() && it.isUnrolled && !it.stores && tripsOf(it) != 1; }))
    most = static_cast<unsigned>(std::min<uint64_t>(most, known_.blocks));
  const unsigned limit = mostInL2(pressure_, holders, options_, known_).blocks;
  return limit ? std::min(most, limit) : most;
}

// What is done once beside loops that take the time may go step by step, too; the assembler says what it lacks. Layer
// norm by Welford's sums, 4096 elements of 16384 by 8 warps in bf16, H200: 103 registers and two blocks 193 us,
// Triton's 76 and three 167. Beside chains, which want all warps that there are, it need not be counted: by running
// moments, 8192 of 32768 by 16 warps in bf16, 109 registers and one block 214 us, 64 and two 160.
bool LoopRule::countsStraightCode() const {
  return pressure_.iterations.empty() || pressure_.exchangesInLoops ||
         any([&](const Iteration &it) { return it.live + overhead_ > pressure_.data; });
}

// All loads of an iteration, and two registers for each address; of many small loads those that keep the memory busy.
unsigned LoopRule::needOfCopies(const Iteration &it, unsigned warps) const {
  constexpr unsigned others = 12, manyLoads = 64;
  const unsigned busy = std::max(it.largestLoad, (bytesInFlight + warps * 128 - 1) / (warps * 128));
  const unsigned loads =
      it.loadWords < manyLoads || it.largestLoad >= largeLoad ? it.loadWords : std::min(busy, it.loadWords);
  return std::max(it.live, loads) + 2 * (it.accesses * loads / it.loadWords) + others;
}

// Iterations whose loads are to be under way at once. Fewer threads need more. All that ptxas unrolls have them where
// the launch says that there are that many: norms of four iterations and more gain 5-10 % by that, those of one lose as
// much, and want all warps.
uint64_t LoopRule::iterationsAhead(const Iteration &it, unsigned blocks, unsigned warps) const {
  auto iterationsFor = [&](uint64_t bytesOfAll, uint64_t least) {
    return std::clamp<uint64_t>((bytesInFlight + bytesOfAll - 1) / bytesOfAll, least, mostUnrolled);
  };
  uint64_t ahead = iterationsFor(uint64_t(warps) * 32 * 4 * it.loadWords, it.largestLoad >= largeLoad ? 2 : 1);
  if (it.isUnrolled && !it.stores && it.bytes)
    ahead = std::max(ahead, tripsOf(it) > manyTrips && blocks != known_.blocks
                                ? mostUnrolled
                                : iterationsFor(it.bytes * std::max(1u, warpsOfFew / options_.numWarps), 1));
  return tripsOf(it) ? std::min<uint64_t>(ahead, static_cast<uint64_t>(tripsOf(it))) : ahead;
}

// Registers of a thread that a loop which waits for memory wants, where that many warps run.
unsigned LoopRule::needOf(const Iteration &it, unsigned blocks, unsigned warps) const {
  if (onlyStores_)
    return needOfCopies(it, warps);
  if (tripsOf(it) == 1)
    return forOne(it, it.largestLoad >= largeLoad && !it.stores ? it.loadWords : it.largestLoad);
  if (isChain_ && !it.stores)
    return it.live + overhead_;
  return static_cast<unsigned>(it.live + overhead_ + (iterationsAhead(it, blocks, warps) - 1) * it.loadWords);
}

// Where loops end soon, other programs begin: all warps that fit, if an iteration of each has enough under way.
// Registers that are missing cost a try (runtime/cuda/Assembler.h).
bool LoopRule::takeAllWarps(unsigned blocks, unsigned warps, unsigned given) const {
  if (warps * 32 != sm::threads || pressure_.iterations.empty())
    return false;
  const auto fillsMemory = [&](const Iteration &it) {
    return uint64_t(warps) * 32 * 4 * it.loadWords >= bytesInFlight;
  };
  if (all([&](const Iteration &it) {
        return it.isShort && it.waitsForMemory() && fillsMemory(it) && it.live + fewest <= given;
      }) ||
      all([&](const Iteration &it) {
        return tripsOf(it) == 1 && forOne(it, it.largestLoad) <= given + (it.specials ? 0 : aFew);
      }))
    return true;
  // Rounds of a grid take as long as a program: one that runs at once in all warps takes two in fewer.
  return blocks == known_.blocks && all([&](const Iteration &it) {
           return it.waitsForMemory() ? it.live + it.loadWords + fewest <= given && fillsMemory(it)
                                      : forOne(it, it.loadWords) <= given;
         });
}

unsigned LoopRule::blocks() const {
  const unsigned straight = countsStraightCode() ? pressure_.data + overhead_ : isChain_ ? 0 : pressure_.data;
  for (unsigned blocks = most_; blocks > 1; --blocks) {
    const unsigned warps = (blocks * options_.numWarps + sm::quarters - 1) / sm::quarters * sm::quarters,
                   given = sm::registersOf(warps);
    unsigned need = std::max(least_, straight);
    for (const Iteration &it : pressure_.iterations)
      if (it.waitsForMemory())
        need = std::max(need, needOf(it, blocks, warps));
    if (takeAllWarps(blocks, warps, given))
      need = std::min(need, given);
    if (known_.isPersistent && blocks == known_.blocks)
      need = std::min(need, std::max(least_, pressure_.data)); // what is missing costs a try (runtime/cuda/Assembler.h)
    if (need <= given + (isChain_ ? aFew : 0))
      return given < sm::mostRegisters ? blocks : 0; // with as many as a thread can have there is nothing to ask for
  }
  return 0;
}

} // namespace

unsigned blocksOfLoops(const Pressure &pressure, const Holders &holders, unsigned most, const Options &options,
                       const Known &known) {
  return LoopRule(pressure, holders, most, options, known).blocks();
}

} // namespace tegula::nvidia
