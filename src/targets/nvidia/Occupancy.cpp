// See Occupancy.h.
#include "targets/nvidia/Occupancy.h"
#include "abi/Multiprocessor.h"
#include "gpu/Dots.h"
#include "gpu/Layouts.h"
#include "gpu/loops/Crowd.h"
#include "gpu/loops/PrefetchLoads.h"
#include "gpu/loops/RowsAgain.h"
#include "gpu/parts/ChooseCluster.h"
#include "gpu/parts/HeldRows.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include "passes/LaunchNumbers.h"
#include "passes/MadeOfScalars.h"
#include "passes/Users.h"
#include "targets/nvidia/HeldBlocks.h"
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tegula::nvidia {
namespace {

namespace sm = abi::multiprocessor;

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;
using tegula::gpu::RowsAgain;

/// What an iteration of a loop asks of memory and of the units for special functions, in one thread.
struct Iteration {
  const Op *loop = nullptr;
  bool isShort = false;                    // constants say that it runs a few times
  std::ptrdiff_t begin = 0, end = 0;       // positions
  unsigned live = 0;                       // 32-bit words of tiles alive in it
  unsigned loadWords = 0, largestLoad = 0; // 32-bit words, of all loads and of one
  unsigned specials = 0;                   // exponentials, logarithms, ...: 16 lanes a cycle
  uint64_t bytes = 0;                      // of a block's loads; what several threads load counts once
  bool isUnrolled = false;                 // by the assembler: nothing forbids it
  bool stores = false;                     // to memory, which may be what a later iteration loads: no load is moved over it
  unsigned accesses = 0;                   // loads and stores
  bool divides = false;                    // what it carries, for the next iteration
  void load(unsigned words, uint64_t bytesOfTile) {
    ++accesses;
    loadWords += words;
    largestLoad = std::max(largestLoad, words);
    bytes += bytesOfTile;
  }
  /// Special functions take less time than memory: 16 lanes a cycle beside the 21 bytes a cycle that are a multiprocessor's share of an H200's memory.
  bool waitsForMemory() const { return 16 * 4 * loadWords > 21 * specials; }
};

/// A loop that loads what a later one loads again (RowsAgain.h).
struct RowLoop {
  const Op *loop = nullptr;
  RowsAgain again;
  int64_t trips = 0; // 0: not constant
};

/// Positions of operations in program order, and the tiles alive at each of them.
class Pressure {
public:
  explicit Pressure(const ir::Module &m) : m_(m) {}
  bool hasDot = false, hasLoop = false, exchanges = false, exchangesInLoops = false;
  unsigned passing = 0;              // words that straight code loads for one user, which are not counted among what is alive
  std::vector<Iteration> iterations; // of loops without cuts, which the assembler unrolls with their loads in front
  std::vector<RowLoop> rows;
  bool canHold = false;              // in shared memory (gpu/loops/HoldRows.h)
  unsigned mostCtas = 1;             // of a cluster that may hold a row together

  unsigned peak(const Block &b) {
    users_.add(b);
    number(b);
    live_.assign(next_ + 1, 0);
    visit(b);
    int64_t now = 0, most = 0;
    for (int64_t &words : live_) // changes become sums
      most = std::max(most, words = now += words);
    for (Iteration &it : iterations)
      it.live = static_cast<unsigned>(*std::max_element(live_.begin() + it.begin, live_.begin() + it.end));
    return static_cast<unsigned>(most);
  }

private:
  struct Span {
    size_t begin = 0, end = 0; // an operation and its regions
  };

  void number(const Block &b) {
    for (const Op *op : b.ops) {
      hasDot |= op->kind == OpKind::Dot;
      hasLoop |= op->kind == OpKind::For || op->kind == OpKind::While;
      const bool exchangesElements = !isInPlace(*op) && op->regions.empty();
      exchanges |= exchangesElements;
      exchangesInLoops |= exchangesElements && isInLoop(b);
      spans_[op].begin = next_++;
      for (const ir::Region *r : op->regions)
        number(*r->block);
      spans_[op].end = next_;
    }
  }

  /// Elements of a tile in one thread.
  unsigned registersOf(const Type &t) const { return t.layout ? 1u << m_.layoutOf(t).inBits(layout::Dim::Register) : 0; }

  /// 32-bit registers of a tile in one thread.
  unsigned words(const Type &t) const {
    if (t.isScalar() || !t.layout || t.isShared || (!t.isPtr && t.elem == ir::Elem::I1))
      return 0;
    return (registersOf(t) * (t.isPtr ? 64 : ir::bitWidth(t.elem)) + 31) / 32;
  }

  /// Element after element, so that a result takes the place of an operand. What exchanges elements between threads needs both; a
  /// reduction exchanges what is left of them.
  static bool isInPlace(const Op &op) {
    return op.operands.empty() || op.results.empty() || op.results[0]->type.isScalar() || op.has(ir::traits::Elementwise) ||
           (op.has(ir::traits::Shape) && op.kind != OpKind::Convert) || op.kind == OpKind::Load || op.kind == OpKind::Reduce;
  }

  /// Has no registers of its own: those of the operand under other coordinates, where one may stand for many copies, as the maximum of a row for its columns.
  static bool isCopies(const Op &op) { return op.kind == OpKind::Broadcast || op.kind == OpKind::ExpandDims || op.kind == OpKind::Reshape || op.kind == OpKind::Permute; }

  /// The user a value is computed for, register by register, just before: its only one, in the same block.
  const Op *onlyUser(const Value *v) const {
    const Op *user = users_.only(v);
    while (user && isCopies(*user))
      user = users_.only(user->results[0]);
    if (!user || !v->def || !(v->def->kind == OpKind::Load || v->def->has(ir::traits::Elementwise)))
      return nullptr;
    bool isPlain = user->regions.empty() || user->kind == OpKind::Reduce;
    return isPlain && user->parent == v->def->parent && isInPlace(*user) ? user : nullptr;
  }

  /// Where `user` reads a value of block `home`: at the end of a loop or branch that contains it; where it delays its own result to,
  /// if it does; where copies that it makes are read.
  size_t positionOf(const Op *user, const Block *home) const {
    if (isCopies(*user))
      return lastUse(user->results[0], 0, home);
    if (user->parent == home) {
      const Op *next = user->results.size() == 1 && user->regions.empty() ? onlyUser(user->results[0]) : nullptr;
      return next ? positionOf(next, home) : isInPlace(*user) ? spans_.at(user).begin : spans_.at(user).end;
    }
    while (user->parent != home)
      user = user->parent->parent->op;
    return spans_.at(user).end;
  }

  size_t lastUse(const Value *v, size_t from, const Block *home) const {
    for (const Op *user : users_.of(v))
      from = std::max(from, positionOf(user, home));
    return from;
  }

  /// A branch alone is no loop: what stands behind `if pid >= n: return` is code like that of a kernel without it.
  static bool isInLoop(const Block &b) {
    const Op *op = b.parent->op;
    while (op && op->kind == OpKind::If)
      op = op->parent->parent->op;
    return op;
  }

  void alive(const Value *v, size_t from, size_t to, const Block *home) {
    unsigned n = words(v->type);
    if (v->def && v->def->kind == OpKind::FpExt && (isInLoop(*home) || (!hasLoop && ir::bitWidth(v->def->operands[0]->type.elem) == 16))) // widened again where it is used
      n = std::min(n, words(v->def->operands[0]->type));
    if (!n || isMadeOfScalars_(v) || onlyUser(v) || (v->def && isCopies(*v->def)))
      return;
    to = lastUse(v, to, home);
    // Where the last user starts, its result may take the place.
    live_[from] += n;
    live_[to] -= n;
  }

  /// Where tiles have to be in registers as a whole. Between two cuts element-wise operations run register by register, whatever their order in the text; but what comes of loads
  /// outside of loops, where no other iteration has loads under way, is wanted at once. No load is moved over a barrier: none of a later iteration is under way there.
  bool isCut(const Op &op) const { return op.kind == OpKind::SharedBarrier ? true : op.kind == OpKind::Reduce ? gpu::crossesThreads(m_, op) : !op.regions.empty() || !isInPlace(op); }

  void visit(const Block &b) {
    std::vector<size_t> cuts;
    for (const Op *op : b.ops)
      if (isCut(*op))
        cuts.push_back(spans_.at(op).begin);
    for (const Op *op : b.ops) {
      const Span &s = spans_.at(op);
      bool isOfLoad = !isInLoop(b) && (op->kind == OpKind::Load || std::any_of(op->operands.begin(), op->operands.end(), [&](const Value *v) { return ofLoads_.contains(v); }));
      for (const Value *v : op->results) {
        if (isOfLoad)
          ofLoads_.insert(v);
        if (const Op *user = op->kind == OpKind::Load && !hasLoop ? onlyUser(v) : nullptr; user && !(user->kind == OpKind::FpExt && !onlyUser(user->results[0])))
          passing += words(v->type);
        if (!words(v->type) || onlyUser(v))
          continue;
        auto next = std::upper_bound(cuts.begin(), cuts.end(), s.begin);
        if (!isOfLoad && op->has(ir::traits::Elementwise) && (next == cuts.end() || *next >= lastUse(v, s.begin, &b)))
          continue;
        size_t from = op->regions.empty() ? s.begin : s.end; // what a loop leaves takes the place of what it carries
        alive(v, from, from, &b);
      }
      for (const ir::Region *r : op->regions) {
        for (const Value *v : r->block->args)
          alive(v, s.begin, s.end, r->block);
        visit(*r->block);
      }
      if (op->kind == OpKind::For)
        countIteration(*op->regions[0]->block, s);
    }
  }

  void countIteration(const Block &body, const Span &s) {
    Iteration it;
    it.begin = static_cast<std::ptrdiff_t>(s.begin);
    it.end = static_cast<std::ptrdiff_t>(s.end);
    const Op &loop = *(it.loop = body.parent->op);
    std::optional<int64_t> first = ir::constantInt(loop.operands[0]), last = ir::constantInt(loop.operands[1]), step = ir::constantInt(loop.operands[2]);
    constexpr int64_t few = 16;
    it.isShort = first && last && step && *step > 0 && std::abs(*last - *first) <= few * *step;
    if (const RowsAgain again = tegula::gpu::rowsReadAgain(loop); again.bytes)
      rows.push_back({&loop, again, first && last && step && *step > 0 && *first < *last ? (*last - *first + *step - 1) / *step : 0});
    it.isUnrolled = !loop.rolled() && !it.isShort;
    it.divides = dividesCarried(body);
    if (!count(body, it))
      return;
    if (it.loadWords)
      iterations.push_back(it);
  }

  /// False: it has cuts. Of an `if` the side that loads more.
  bool count(const Block &b, Iteration &it) const {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::If) {
        Iteration sides[2];
        if (!count(*op->regions[0]->block, sides[0]) || !count(*op->regions[1]->block, sides[1]))
          return false;
        const Iteration &more = sides[sides[1].loadWords > sides[0].loadWords];
        it.loadWords += more.loadWords;
        it.bytes += more.bytes;
        it.accesses += more.accesses;
        it.stores |= sides[0].stores || sides[1].stores;
        it.largestLoad = std::max(it.largestLoad, more.largestLoad);
        it.specials += more.specials;
        continue;
      }
      if (isCut(*op))
        return false;
      if (op->kind == OpKind::Load)
        it.load(words(op->result()->type), static_cast<uint64_t>(op->result()->type.isScalar() ? 0 : op->result()->type.numel() * ir::byteWidth(op->result()->type.elem)));
      else if (op->kind == OpKind::Store)
        it.stores = true, ++it.accesses;
      else if (isSpecial(op->kind))
        it.specials += registersOf(op->result()->type);
    }
    return true;
  }

  /// Does an iteration divide by, or into, what it carries, and hand the quotient on? Welford's means do.
  static bool dividesCarried(const Block &body) {
    std::unordered_set<const Value *> carried(body.args.begin() + 1, body.args.end()), quotients;
    for (const Op *op : body.ops) {
      const auto isIn = [&](const auto &those) { return std::ranges::any_of(op->operands, [&](const Value *v) { return those.contains(v); }); };
      if (op->kind == OpKind::Yield)
        return isIn(quotients);
      const bool divides = isIn(quotients) || (op->kind == OpKind::FDiv && isIn(carried)), isOfCarried = isIn(carried);
      for (const Value *v : op->results) {
        if (divides)
          quotients.insert(v);
        if (isOfCarried)
          carried.insert(v);
      }
    }
    return false;
  }

  static bool isSpecial(OpKind k) {
    constexpr OpKind those[] = {OpKind::Exp, OpKind::Exp2, OpKind::Log, OpKind::Log2, OpKind::FDiv, OpKind::Sqrt, OpKind::Rsqrt, OpKind::Sin, OpKind::Cos, OpKind::Tanh};
    return std::find(std::begin(those), std::end(those), k) != std::end(those);
  }

  const ir::Module &m_;
  size_t next_ = 0;
  std::unordered_map<const Op *, Span> spans_;
  Users users_;
  MadeOfScalars isMadeOfScalars_; // computed again where it is used
  std::unordered_set<const Value *> ofLoads_; // outside of loops
  std::vector<int64_t> live_;
};

} // namespace

unsigned dataRegisters(const ir::Function &kernel, const ir::Module &gpu) { return Pressure(gpu).peak(*kernel.block()); }

/// Is the value, which a loop carries, what an asynchronous dot of it adds to, or gives?
static bool isOfDot(const Block &body, const Value *carried) {
  const Value *next = body.terminator()->operands[carried->index - 1];
  if (next->def && next->def->kind == OpKind::DotWait)
    next = next->def->operands[next->index];
  return (next->def && next->def->kind == OpKind::Dot) ||
         std::ranges::any_of(body.ops, [&](const Op *op) {
           if (op->kind != OpKind::Dot)
             return false;
           const Op *zeroes = tegula::gpu::zeroesOf(*op);
           return (zeroes ? zeroes->operands[2] : op->operands[2]) == carried;
         });
}

/// 32-bit registers of a thread that a loop with asynchronous dots cannot do without, of the loop with most; 0 if there is none: their results, sums of their type beside them (to which results are
/// added once they are there: products of fp8 with scales by blocks), and addresses, or operands on their way through registers where those are more (rows that are not aligned, which no copy takes:
/// 128x128x32 by four warps hold 128 and 32, spilled 640 bytes with three blocks, and were assembled a second time for two).
static int64_t needOfLoops(const Block &b, int64_t threads) {
  constexpr int64_t addresses = 40, besideOperands = 16;
  auto registersOf = [&](const Type &t) { return t.numel() * ir::byteWidth(t.elem) / 4 / threads; };
  int64_t most = 0, sum = 0, loaded = 0;
  std::vector<Type> types;
  for (const Op *op : b.ops) {
    for (const ir::Region *r : op->regions)
      most = std::max(most, needOfLoops(*r->block, threads));
    if (op->kind == OpKind::Load && !op->result()->type.isScalar())
      loaded += registersOf(op->result()->type);
    if (op->kind == OpKind::Dot && tegula::gpu::isAsyncMma(*op)) {
      sum += registersOf(op->result()->type);
      types.push_back(op->result()->type);
    }
  }
  if (!b.parent->op || b.parent->op->kind != OpKind::For)
    return most;
  for (const Value *v : b.args)
    if (std::ranges::find(types, v->type) != types.end() && !isOfDot(b, v))
      sum += registersOf(v->type);
  return std::max(most, sum ? sum + std::max(addresses, loaded + besideOperands) : 0);
}

/// Of the loop with most: 32-bit registers of a thread for the sums of mma.sync. Negative where a product is asynchronous, stands in no loop or in several, reads what is computed or widened, or is added to a sum outside: there is no telling what those take.
static int64_t sumsOfSyncDots(const Block &b, int64_t threads) {
  const Op *loop = b.parent->op && b.parent->op->kind == OpKind::For ? b.parent->op : nullptr;
  // In a loop over tiles, whose grid has as many programs as there are SMs, nobody else comes.
  const bool isInLoop = loop && !loop->parent->parent->op;
  const auto isAsItIs = [](const Value *v) { return v->def && v->def->kind == OpKind::SharedLoad; };
  int64_t most = 0, registers = 0;
  for (const Op *op : b.ops) {
    for (const ir::Region *r : op->regions) {
      const int64_t inside = sumsOfSyncDots(*r->block, threads);
      if (inside < 0)
        return inside;
      most = std::max(most, inside);
    }
    if (op->kind != OpKind::Dot)
      continue;
    const Value *sum = op->operands[2];
    const bool addsToCarried = sum->block == &b && !sum->def, addsToDot = sum->def && sum->def->kind == OpKind::Dot;
    if (!isInLoop || tegula::gpu::isAsyncMma(*op) || ir::isFp8(op->operands[0]->type.elem) || !isAsItIs(op->operands[0]) || !isAsItIs(op->operands[1]) || !(addsToCarried || addsToDot))
      return -1;
    registers += addsToDot ? 0 : op->result()->type.numel() / threads;
  }
  return std::max(most, registers);
}

/// Loops of mma.sync wait for copies, unless others compute meanwhile: with few stages 32 warps on an SM, where shared memory has room for them, for the registers that the assembler takes if it may (2048x4096x4096
/// bf16, 32x64x32 by four warps, two stages, H200: 74 registers and six blocks 424 us, 64 and eight 358, 48 and ten 372, Triton's 47 and ten 411). Up to sixteen warps run without being asked for.
static unsigned blocksOfSyncDots(const Block &b, unsigned warps, unsigned most) {
  constexpr unsigned enoughWarps = 32, unasked = 16;
  constexpr int64_t others = 40; // addresses and fragments
  const int64_t sums = sumsOfSyncDots(b, 32 * int64_t{warps});
  unsigned blocks = sums > 0 ? std::min(most, enoughWarps / warps) : 0;
  while (blocks > 1 && sm::registersOf(blocks * warps) < sums + others)
    --blocks;
  return blocks * warps > unasked ? blocks : 0;
}

/// Loops with asynchronous dots have chosen their rings and how their dots overlap for so many blocks (gpu/loops/PipelinedLoop.h): up to sixteen warps on an SM. Without a wish what
/// follows the loop (an activation of the whole tile) may take the registers of a neighbour. One block more than planned for, where what its loop cannot do without leaves room for it: the
/// assembler tells.
static unsigned blocksOfDots(const Block &b, const Options &options, unsigned most) {
  constexpr unsigned enoughWarps = 16;
  const int64_t need = needOfLoops(b, 32 * int64_t{options.numWarps});
  unsigned blocks = need ? std::min(most, enoughWarps / options.numWarps) : 0;
  while (blocks > 1 && sm::registersOf(blocks * options.numWarps) < need)
    --blocks;
  return blocks > 1 ? blocks : 0;
}

/// CTAs of a cluster wait for each other at every exchange, so that others on the multiprocessor are worth more than registers for chains: cross entropy of 32768 columns in bf16, four CTAs of eight
/// warps, H200: 72 registers 1850 GB/s, 64 2233, 48 and three of them spilled 2417. Kernels with loops and dots were not measured.
static unsigned blocksOfRows(const ir::Function &kernel, unsigned threads, unsigned most) {
  constexpr unsigned overhead = 16, least = 32;
  auto isLoopOrDot = [](const Op &op) { return op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::Dot || op.kind == OpKind::Partitions; };
  if (ir::anyOp(*kernel.block(), isLoopOrDot))
    return 0;
  const tegula::gpu::HeldRows held = tegula::gpu::heldRows(kernel, threads);
  unsigned blocks = held.reduction ? most : 0;
  while (blocks > 1 && sm::registersOf(blocks * threads / 32) < std::max(least, held.words + overhead))
    --blocks;
  return blocks > 1 ? blocks : 0;
}

/// Rows in shared memory (gpu/parts/StageRows.h): as many blocks as that has room for, with registers for chains of a few vectors.
static unsigned blocksOfStaged(unsigned threads, unsigned most) {
  constexpr unsigned enough = tegula::gpu::ClusterLimits{}.staged;
  unsigned blocks = most;
  while (blocks > 1 && sm::registersOf(blocks * threads / 32) < enough)
    --blocks;
  return blocks > 1 ? blocks : 0;
}

namespace {

/// What a launch decides, as classes have it.
struct Known {
  uint64_t blocks = 0;        // of the grid on a multiprocessor if all ran at once; 0: not known
  bool isPersistent = false;  // the programs of that grid share all work among them
  bool loadsAhead = false;    // loops do so by what the launch says
  std::vector<int64_t> trips, rowTrips; // by Pressure::iterations and rows, the most of a class; 0: not known
};

/// Classes of a grid, by the warps that a multiprocessor has of it if all run at once; of trips: one iteration has no loads of later ones, from some on there is time to gain by them.
constexpr int64_t gridWarps[] = {16, 40, 48, 64}, tripLimits[] = {1, tegula::gpu::fewTrips}, mostTrips = INT32_MAX;

/// Do programs take every n-th part of the work, n being their number? Then the grid is meant to run at once, and one that waits for a place on a multiprocessor begins when all others are done:
/// softmax of 8192 columns in bf16, 528 programs of four warps, H200: 126 registers and four blocks 140 us, 130 and three 160.
bool isPersistent(const Block &b) {
  const auto isNumberOfPrograms = [](const Value *v) {
    while (v->def && (v->def->kind == OpKind::SExt || v->def->kind == OpKind::ZExt || v->def->kind == OpKind::Trunc))
      v = v->def->operands[0];
    return v->def && v->def->kind == OpKind::NumPrograms && v->def->axis() == 0;
  };
  return std::ranges::any_of(b.ops, [&](const Op *op) {
    return op->kind == OpKind::For ? isNumberOfPrograms(op->operands[2]) : op->kind == OpKind::If && std::ranges::any_of(op->regions, [](const ir::Region *r) { return isPersistent(*r->block); });
  });
}

/// What a multiprocessor's blocks may have of rows that they read again, so that these are in the L2 cache still: beside them it holds what the blocks store.
constexpr uint64_t bytesInL2 = sm::l2Bytes / LaunchFacts::usualCores / 2;
constexpr uint64_t mostInAnyCase = bytesInL2 * 3 / 2; // of as many blocks as the memory needs to be busy

HeldIterations heldIterations(const Pressure &pressure, size_t row) {
  const RowsAgain &again = pressure.rows[row].again;
  return {again.bytes, again.isNarrow, static_cast<unsigned>(pressure.rows.size())};
}

/// Blocks on a multiprocessor at most; 0: as many as registers allow. Of rows of which not even one for each multiprocessor stays, all blocks may read.
Holding mostInL2(const Pressure &pressure, const Options &options, const Known &known) {
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
    const bool isSpecial = std::ranges::any_of(pressure.iterations, [](const Iteration &it) { return it.specials > 0; });
    leastBlocks = std::max(leastBlocks, ((isSpecial ? besideSpecials : underWay) + pressure.rows[i].again.bytes - 1) / pressure.rows[i].again.bytes);
  }
  // A grid that runs at once has no blocks that could wait.
  if (bytes && pressure.canHold)
    return blocksThatHold(heldIterations(pressure, longest), known.rowTrips[longest], options.numWarps, known.blocks, pressure.mostCtas);
  if (!bytes || bytes > bytesInL2 || (known.blocks && known.blocks * options.numWarps <= sm::threads / sm::lanes))
    return {};
  const uint64_t blocks = std::max({bytesInL2 / bytes, leastBlocks, uint64_t{(leastWarps + options.numWarps - 1) / options.numWarps}});
  return {blocks <= mostLimited && blocks * bytes <= mostInAnyCase ? static_cast<unsigned>(blocks) : 0};
}

/// The rule: blocks wished for on a multiprocessor.
unsigned blocksFor(const Pressure &pressure, unsigned data, unsigned most, const Options &options, const Known &known) {
  constexpr unsigned bytesInFlight = 48 << 10; // that keep an SM's share of the memory busy; measured on sums, norms and softmax by loops of an H200
  constexpr uint64_t mostUnrolled = 4;         // iterations, by the assembler
  // How many blocks a grid has is often not known. Where it does not fill the multiprocessors, or ends in a part of them, loads of later iterations keep memory busy and blocks that are not there do not:
  // so many warps have enough under way. Matrix times vector, 16 x 64 floats by 4 warps, 8192 rows, are four blocks: asking for twelve left 64 bytes of a thread under way of 192, 122 us for 75 (H200).
  constexpr unsigned warpsOfFew = 16;
  constexpr unsigned fewest = 16;    // registers for addresses
  constexpr unsigned largeLoad = 16; // registers: programs that load much at once are few, and do not fill the SM
  const bool waits = std::ranges::any_of(pressure.iterations, &Iteration::waitsForMemory);
  // Copies by loops: no load of a later iteration is moved over a store, so registers for it are of no use.
  const bool onlyStores = waits && std::ranges::all_of(pressure.iterations, [](const Iteration &it) { return it.stores || !it.waitsForMemory(); });
  const auto tripsOf = [&](const Iteration &it) { return known.trips[static_cast<size_t>(&it - pressure.iterations.data())]; };
  const bool areSingle = !pressure.iterations.empty() && std::ranges::all_of(pressure.iterations, [&](const Iteration &it) { return tripsOf(it) == 1; });
  // Three quarters of the warps with loads ahead are faster than all without (norms, sums). But not where each iteration waits for a quotient of the one before: running moments of 32768 columns, 128 at a time by
  // four warps in bf16, H200: 33 registers and twelve blocks 487 us, 29 and sixteen 376.
  const bool isChain = waits && !onlyStores && std::ranges::all_of(pressure.iterations, [](const Iteration &it) { return (it.divides && it.largestLoad < largeLoad) || it.stores || !it.waitsForMemory(); });
  // Addresses, chains in flight; measured on rows of softmax and layer_norm. Behind loops that take the time, exchanges may as well go step by step.
  // Chains of many elements beside exchanges in a loop go one after the other.
  constexpr unsigned manyWords = 48;
  unsigned overhead = pressure.exchangesInLoops && data >= manyWords ? 32 : pressure.exchangesInLoops || (pressure.exchanges && pressure.iterations.empty() && pressure.hasLoop) ? 40 : isChain || (areSingle && std::ranges::all_of(pressure.iterations, &Iteration::waitsForMemory)) ? fewest : 22;
  if (pressure.exchanges && !pressure.hasLoop) // some are under way together
    overhead += std::min(pressure.passing / 4, 18u);
  unsigned least = waits && !onlyStores && !isChain && !areSingle ? 40 : 32;
  // Of a grid that leaves most warps of a multiprocessor idle each block has the registers of those that are not there, where loops have a use for them.
  const bool isFew = known.blocks && known.blocks * options.numWarps <= warpsOfFew;
  if (isFew && std::ranges::any_of(pressure.iterations, [&](const Iteration &it) { return it.waitsForMemory() && it.isUnrolled && !it.stores && tripsOf(it) != 1; }))
    most = static_cast<unsigned>(std::min<uint64_t>(most, known.blocks));
  // Registers of an iteration without loads of others: what is alive may be what was loaded, or a sum of it.
  const auto forOne = [](const Iteration &it, unsigned loads) { return it.live + (it.live < loads ? loads : 0) + fewest; };
  if (const unsigned limit = mostInL2(pressure, options, known).blocks)
    most = std::min(most, limit);
  // What is done once beside loops that take the time may go step by step, too; the assembler says what it lacks. Layer norm by Welford's sums, 4096 elements of 16384 by 8 warps in bf16, H200: 103 registers and two
  // blocks 193 us, Triton's 76 and three 167. Beside chains, which want all warps that there are, it need not be counted: by running moments, 8192 of 32768 by 16 warps in bf16, 109 registers and one block 214 us, 64 and two 160.
  const bool inLoops = pressure.iterations.empty() || pressure.exchangesInLoops || std::ranges::any_of(pressure.iterations, [&](const Iteration &it) { return it.live + overhead > data; });
  // Registers that may be missing where all warps are worth a try (runtime/cuda/Assembler.h). RMS norm of 1024 floats, 8192 at a time by 16 warps, H200: 40 registers 153 us, 32 without spills 133; moments of 16 columns, 256 rows at a
  // time by 16 warps in bf16: 64 registers 81 us, 40 and one spilled 69.
  constexpr unsigned aFew = 4;
  for (unsigned blocks = most; blocks > 1; --blocks) {
    const unsigned warps = (blocks * options.numWarps + sm::quarters - 1) / sm::quarters * sm::quarters, given = sm::registersOf(warps);
    unsigned need = std::max(least, inLoops ? data + overhead : isChain ? 0 : data);
    // Fewer threads need more loads of later iterations under way. All that ptxas unrolls have them where the launch says that there are so many: norms of four iterations and more gain 5-10 % by that, those
    // of one lose as much, and want all warps.
    for (const Iteration &it : pressure.iterations)
      if (it.waitsForMemory()) {
        auto iterationsFor = [&](uint64_t bytesOfAll, uint64_t least) { return std::clamp<uint64_t>((bytesInFlight + bytesOfAll - 1) / bytesOfAll, least, mostUnrolled); };
        if (onlyStores) { // all loads of an iteration, and two registers for each address; of many small loads those that keep the memory busy
          constexpr unsigned others = 12, manyLoads = 64;
          const unsigned busy = std::max(it.largestLoad, (bytesInFlight + warps * 128 - 1) / (warps * 128)), loads = it.loadWords < manyLoads || it.largestLoad >= largeLoad ? it.loadWords : std::min(busy, it.loadWords);
          need = std::max(need, std::max(it.live, loads) + 2 * (it.accesses * loads / it.loadWords) + others);
          continue;
        }
        if (tripsOf(it) == 1) {
          need = std::max(need, forOne(it, it.largestLoad >= largeLoad && !it.stores ? it.loadWords : it.largestLoad));
          continue;
        }
        if (isChain && !it.stores) {
          need = std::max(need, it.live + overhead);
          continue;
        }
        uint64_t ahead = iterationsFor(uint64_t(warps) * 32 * 4 * it.loadWords, it.largestLoad >= largeLoad ? 2 : 1);
        if (it.isUnrolled && !it.stores && it.bytes)
          ahead = std::max(ahead, tripsOf(it) > tripLimits[1] && blocks != known.blocks ? mostUnrolled : iterationsFor(it.bytes * std::max(1u, warpsOfFew / options.numWarps), 1));
        if (tripsOf(it))
          ahead = std::min<uint64_t>(ahead, static_cast<uint64_t>(tripsOf(it)));
        need = static_cast<unsigned>(std::max<uint64_t>(need, it.live + overhead + (ahead - 1) * it.loadWords));
      }
    // Where loops end soon, other programs begin: all warps that fit, if an iteration of each has enough under way. Registers that are missing cost a try (runtime/cuda/Assembler.h).
    const auto allFit = [&](auto &&fits) { return warps * 32 == sm::threads && !pressure.iterations.empty() && std::ranges::all_of(pressure.iterations, fits); };
    if (allFit([&](const Iteration &it) { return it.isShort && it.waitsForMemory() && uint64_t(warps) * 32 * 4 * it.loadWords >= bytesInFlight && it.live + fewest <= given; }) ||
        allFit([&](const Iteration &it) { return tripsOf(it) == 1 && forOne(it, it.largestLoad) <= given + (it.specials ? 0 : aFew); }) ||
        // Rounds of a grid take as long as a program: one that runs at once in all warps takes two in fewer.
        (blocks == known.blocks && allFit([&](const Iteration &it) {
           return it.waitsForMemory() ? it.live + it.loadWords + fewest <= given && uint64_t(warps) * 32 * 4 * it.loadWords >= bytesInFlight : forOne(it, it.loadWords) <= given;
         })))
      need = std::min(need, given);
    if (known.isPersistent && blocks == known.blocks)
      need = std::min(need, std::max(least, data)); // what is missing costs a try (runtime/cuda/Assembler.h)
    if (need <= given + (isChain ? aFew : 0))
      return given < abi::multiprocessor::mostRegisters ? blocks : 0; // with as many as a thread can have there is nothing to ask for
  }
  return 0;
}

} // namespace

namespace {

/// The axes of what a launch may decide, and the rule asked for each combination of classes.
class Asking {
public:
  using Rule = std::function<uint8_t(const Known &)>;
  Asking(const ir::Function &kernel, Pressure &pressure, const Options &options, const LaunchForms &ahead, Rule form) : pressure_(pressure), options_(options), ahead_(ahead), form_(std::move(form)) {
    forms_.exprs = ahead.exprs;
    for (const Iteration &it : pressure.iterations) {
      known_.trips.push_back(0);
      const bool isConstant = ir::constantInt(it.loop->operands[0]) && ir::constantInt(it.loop->operands[1]) && ir::constantInt(it.loop->operands[2]);
      numbers_.push_back(isConstant ? -1 : LaunchNumbers(kernel, forms_).tripsOf(*it.loop));
    }
    for (const RowLoop &row : pressure.rows) {
      known_.rowTrips.push_back(row.trips);
      rowNumbers_.push_back(row.trips ? -1 : LaunchNumbers(kernel, forms_).tripsOf(*row.loop));
    }
    known_.isPersistent = isPersistent(*kernel.block());
    if (known_.isPersistent)
      for (int64_t blocks = 1; blocks <= 8 && blocks * options.numWarps <= gridWarps[0]; ++blocks) // tables stay small
        grids_.push_back({16 * blocks, static_cast<uint64_t>(blocks)});
    for (const int64_t warps : gridWarps)
      if (const GridClass c{16 * warps / options.numWarps, std::max<uint64_t>(1, static_cast<uint64_t>(warps) / options.numWarps)}; grids_.empty() || c.limit > grids_.back().limit)
        grids_.push_back(c);
  }

  LaunchForms ask() {
    forms_.unknown = form_(known_);
    LaunchForms::Axis grid{LaunchForms::Axis::grid, {}};
    for (const GridClass &c : grids_)
      grid.limits.push_back(c.limit);
    forms_.axes.push_back(std::move(grid));
    for (int32_t n : numbers_)
      if (n >= 0 && forms_.axes.size() <= mostLoops && std::ranges::find(forms_.axes, n, &LaunchForms::Axis::number) == forms_.axes.end())
        forms_.axes.push_back({n, {std::begin(tripLimits), std::end(tripLimits)}});
    addRowLimits();
    if (ahead_.asks())
      addLimit(ahead_.axes.back().number, ahead_.axes.back().limits.front());
    classes(0, known_, {});
    for (size_t i = forms_.axes.size(); i--;)
      dropIdle(i);
    if (std::ranges::all_of(forms_.forms, [&](uint8_t form) { return form == forms_.unknown; })) {
      const uint8_t only = forms_.unknown;
      forms_ = {};
      forms_.unknown = only;
    }
    forms_.form = options_.facts.form ? options_.facts.form : forms_.asks() ? forms_.formFor(options_.facts) : forms_.unknown;
    return std::move(forms_);
  }

private:
  static constexpr size_t mostLoops = 2; // that differ; tables stay small

  /// Bytes of rows at which the rule changes, of the loop whose rows have that number.
  std::vector<uint64_t> limitsOfRows(size_t row) const {
    if (pressure_.canHold)
      return limitsOfHolding(heldIterations(pressure_, row), pressure_.mostCtas);
    std::vector<uint64_t> out;
    for (uint64_t blocks = 1; blocks <= mostLimited + 1; ++blocks)
      out.insert(out.end(), {bytesInL2 / blocks, mostInAnyCase / blocks});
    return out;
  }

  /// The trips from which on rows that are read again want fewer blocks; dropped where tables would not stay small.
  void addRowLimits() {
    std::vector<LaunchForms::Axis> axes = forms_.axes;
    for (size_t i = 0; i < rowNumbers_.size(); ++i) {
      if (rowNumbers_[i] < 0)
        continue;
      auto axis = std::ranges::find(axes, rowNumbers_[i], &LaunchForms::Axis::number);
      if (axis == axes.end() && axes.size() > mostLoops)
        continue;
      if (axis == axes.end())
        axis = axes.insert(axis, {rowNumbers_[i], {}});
      for (const uint64_t bytes : limitsOfRows(i))
        if (const auto trips = static_cast<int64_t>(bytes / pressure_.rows[i].again.bytes); trips && std::ranges::find(axis->limits, trips) == axis->limits.end())
          axis->limits.push_back(trips);
      std::ranges::sort(axis->limits);
    }
    size_t combinations = 1;
    for (const LaunchForms::Axis &a : axes)
      combinations *= a.limits.size() + 1;
    if (combinations <= LaunchForms::mostForms) {
      forms_.axes = std::move(axes);
    } else if (pressure_.mostCtas > 1) {
      pressure_.mostCtas = 1;
      addRowLimits();
    }
  }

  void addLimit(int32_t number, int64_t limit) {
    auto axis = std::ranges::find(forms_.axes, number, &LaunchForms::Axis::number);
    if (axis == forms_.axes.end())
      axis = forms_.axes.insert(axis, {number, {}});
    if (std::ranges::find(axis->limits, limit) == axis->limits.end())
      axis->limits.push_back(limit);
    std::ranges::sort(axis->limits);
  }

  /// Do loops load ahead where the grid and trips of `most` are the most of a class? Its limits are among those of the classes.
  bool loadsAhead(const std::vector<std::pair<int32_t, int64_t>> &most) const {
    size_t index = 0;
    for (const LaunchForms::Axis &a : ahead_.axes) {
      const int64_t n = std::ranges::find(most, a.number, &std::pair<int32_t, int64_t>::first)->second;
      index = index * (a.limits.size() + 1) + static_cast<size_t>(std::ranges::count_if(a.limits, [&](int64_t limit) { return limit < n; }));
    }
    return ahead_.asks() && ahead_.forms[index] == tegula::gpu::aheadForm;
  }

  /// `most`: by number, of the axes before.
  void classes(size_t axis, Known known, std::vector<std::pair<int32_t, int64_t>> most) {
    if (axis == forms_.axes.size()) {
      known.loadsAhead = loadsAhead(most);
      forms_.forms.push_back(form_(known));
      return;
    }
    const LaunchForms::Axis &a = forms_.axes[axis];
    for (size_t c = 0; c <= a.limits.size(); ++c) {
      if (a.number == LaunchForms::Axis::grid) {
        known.blocks = c < a.limits.size() ? grids_[c].blocks : UINT32_MAX;
      } else {
        const int64_t trips = c < a.limits.size() ? a.limits[c] : mostTrips;
        for (size_t i = 0; i < numbers_.size(); ++i)
          if (numbers_[i] == a.number)
            known.trips[i] = trips;
        for (size_t i = 0; i < rowNumbers_.size(); ++i)
          if (rowNumbers_[i] == a.number)
            known.rowTrips[i] = trips;
      }
      most.resize(axis);
      most.emplace_back(a.number, c < a.limits.size() ? a.limits[c] : INT64_MAX);
      classes(axis + 1, known, most);
    }
  }

  /// Takes an axis away that decides nothing.
  void dropIdle(size_t axis) {
    size_t inner = 1, own = forms_.axes[axis].limits.size() + 1;
    for (size_t i = axis + 1; i < forms_.axes.size(); ++i)
      inner *= forms_.axes[i].limits.size() + 1;
    std::vector<uint8_t> first;
    for (size_t i = 0; i < forms_.forms.size(); ++i) {
      const size_t c = i / inner % own;
      if (c == 0)
        first.push_back(forms_.forms[i]);
      else if (forms_.forms[i] != forms_.forms[i - c * inner])
        return;
    }
    forms_.forms = std::move(first);
    forms_.axes.erase(forms_.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  }

  struct GridClass {
    int64_t limit; // of LaunchForms::Axis::grid
    uint64_t blocks;
  };

  Pressure &pressure_;
  const Options &options_;
  const LaunchForms &ahead_;
  const Rule form_;
  std::vector<GridClass> grids_; // ascending
  Known known_;
  std::vector<int32_t> numbers_, rowNumbers_; // of the iterations' and rows' trips: expressions; -1: constants or nobody knows
  LaunchForms forms_;
};

} // namespace

constexpr uint8_t fewForm = 1, manyForm = 2; // code for grids that are no crowd, and for those that are

LaunchForms formsByCrowd(const Options &options) {
  LaunchForms out;
  if (!options.askedCrowd)
    return out;
  const auto crowd = tegula::gpu::Crowd::of(options.askedCrowd);
  out.axes = {{LaunchForms::Axis::grid, crowd.limits()}};
  for (size_t i = 0; i <= out.axes[0].limits.size(); ++i)
    out.forms.push_back(i % 2 ? manyForm : fewForm);
  out.unknown = fewForm;
  out.form = crowd.gains(options.crowd) ? manyForm : fewForm;
  return out;
}

uint32_t crowdOf(const LaunchFacts &facts) {
  if (facts.form)
    return facts.form == manyForm ? UINT32_MAX : 1;
  const int64_t cores = facts.cores;
  return static_cast<uint32_t>(std::min<int64_t>(UINT32_MAX, (std::clamp<int64_t>(facts.programs, 0, UINT32_MAX) * 16 + cores - 1) / cores));
}

BlockWish wishedBlocks(const ir::Function &kernel, const ir::Module &gpu, const Options &options, uint64_t sharedBytes, const LaunchForms &ahead, bool canHold, unsigned mostCtas) {
  Pressure pressure(gpu);
  pressure.canHold = canHold;
  pressure.mostCtas = mostCtas;
  unsigned data = pressure.peak(*kernel.block()), threads = 32 * options.numWarps;
  auto most = static_cast<unsigned>(std::min<uint64_t>({sm::threads / threads, sm::mostBlocks, sm::sharedBytes / (sharedBytes + sm::sharedReserved)}));
  if (options.maxRegisters)
    return {};
  if (options.stagesRows)
    return {.blocks = blocksOfStaged(threads, most)};
  if (options.numCtas > 1)
    return {.blocks = blocksOfRows(kernel, threads, most)};
  if (pressure.hasDot) {
    const unsigned blocks = blocksOfDots(*kernel.block(), options, most);
    return {.blocks = blocks ? blocks : blocksOfSyncDots(*kernel.block(), options.numWarps, most)};
  }
  LaunchForms asked = Asking(kernel, pressure, options, ahead, [&](const Known &known) {
                        const Holding holding = options.numWarps < FormCode::warpsOfLimits ? Holding{} : mostInL2(pressure, options, known);
                        return FormCode{.blocks = blocksFor(pressure, data, most, options, known), .limit = holding.blocks, .ctas = holding.ctas, .loadsAhead = known.loadsAhead}.pack();
                      }).ask();
  const FormCode form = FormCode::of(asked.form);
  BlockWish wish{.blocks = form.blocks, .most = form.limit, .ctas = form.ctas};
  if (wish.most) {
    wish.held = canHold ? wish.most : 0;
    wish.rows = pressure.rows.front().loop;
  }
  wish.forms = std::move(asked);
  return wish;
}

} // namespace tegula::nvidia
