// Where values live: the home layout of every tensor of a kernel, by the ranks of AssignLayouts.h, and the layouts that
// accesses and dots work in. Decides only; AssignLayouts.cpp writes the kernel.
#pragma once
#include "gpu/Dots.h"
#include "gpu/TargetInfo.h"
#include "gpu/layouts/ElementUses.h"
#include "gpu/layouts/TurnedTiles.h"
#include "layout/Constructors.h"
#include "passes/AxisFacts.h"
#include "passes/Users.h"
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tegula::gpu {

/// What decided a home: a stronger rank replaces a weaker one.
enum class Rank : uint8_t { None, Other, Memory, Accumulator };

/// layout: one of the module that is written, from 1 on; 0: none, or not known yet.
struct Home {
  uint16_t layout = 0;
  Rank rank = Rank::None;
};

/// What an access looks like when it is coalesced.
struct Access {
  LinearLayout layout;
  int64_t vec = 1;
  int64_t wanted = 1; // elements that would fit one instruction
  unsigned axis = 0;  // along which addresses are consecutive
};

/// A layout made from `l`, that of a split's operand, in which each pair lies in one thread (layout::splittable). The
/// halves of what was joined just now, as the steps of a Hadamard transform leave them, change places with the pairs:
/// later steps are about other bits, of which the registers have more then.
LinearLayout layoutOfPairs(const ir::Value *operand, const LinearLayout &l);

/// Of one kernel. Values that are cheap to compute again, and those that only rename another, have none of their own.
class Homes {
public:
  /// Decides at once. Layouts are interned in `out`, the module that the kernel is written to.
  Homes(const ir::Function &f, ir::Module &out, const TargetInfo &target, unsigned warps);

  const ir::Function &function() const { return f_; }
  unsigned warps() const { return warps_; }
  layout::Threads threads() const { return {target_.lanes(), warps_}; }
  const TargetInfo &target() const { return target_; }
  const AxisFacts &facts() const { return facts_; }

  /// Where a scan works, or a reduction: as a scan beside it does, else in the layout of the first operand of those
  /// with the strongest home.
  Home worksIn(const ir::Op &op) const;

  Home of(const ir::Value *v) const;
  /// The home, or a default for values that have none.
  LinearLayout layoutFor(const ir::Value *v) const;
  const LinearLayout &layoutOf(Home h) const { return out_.layouts[h.layout - 1u]; }

  /// May be computed again wherever it is needed.
  bool isCheap(const ir::Value *v) const;

  /// A sum (or the like) of what is cheap and one value from outside of the loop: that value is moved, once, instead of
  /// the sum in each iteration. Or pointers at positions that a scan computes, of which the offsets are moved.
  bool isMovedInParts(const ir::Value *v) const;

  /// A load or store at addresses that were computed from data, of whose neighbours nothing is known: there is nothing
  /// to coalesce. Not atomics, whose results have a home before their addresses have one.
  bool isScattered(const ir::Op &op) const;
  /// Where a scattered access goes, instead of a tile of pointers: where its addresses are, else (a table that the loop
  /// before has found the index of) where what it loads is used, or what it stores. Nothing if threads would hold
  /// copies there.
  Home besideAddresses(const ir::Op &op) const;

  /// A row, or a few of them, of no more elements than one access of 16 bytes by each thread, that a larger tile is
  /// computed with: every thread that needs its elements loads them, if these are two accesses at most, which costs no
  /// more instructions than to load some, store them to shared memory and read what it needs there, and no barrier.
  /// Copies ahead bring it with the widest accesses of that layout; elements that lie apart are in fewer sectors, as
  /// lanes share them.
  bool isSpread(const ir::Op &op) const;
  std::optional<Home> homeOfSpread(const ir::Value *v) const;

  /// A row that a loop loads to scale the accumulator of a dot with, as the threads need it that hold that, if they
  /// have the registers. No layout: it is none, or its dot has no home yet (true).
  std::pair<Home, bool> besideAccumulator(const ir::Op &op) const;

  Access access(const ir::Op &op) const;

  DotChoice choiceOf(const ir::Op &dot) const { return target_.chooseDot(dot, warps_); }
  /// Asynchronous dots can take A from registers. Worth it where A was computed from another dot's result and stays
  /// within its warps (attention), or in the loop from tiles that are read as the dot takes them; what comes from
  /// memory as it is goes to shared memory without passing through registers at all.
  bool takesRegisters(const ir::Op &dot, const DotChoice &c) const;

  unsigned runOf(const ir::Op &dot) const;

private:
  /// Is what a loop loads converted to another type for one of its dots, and no more than that? (Work with other
  /// operands, scales and zeros, would take twice as many of their elements in a thread of 16 bytes: 1306 -> 1492 us.)
  bool isOnlyWidened(const ir::Op &load) const;
  /// Is A computed in the loop of its dot, for it and dots of other parts of the same alone, from tiles of elements of
  /// 16 or 32 bits that copies by threads or by TMA can bring, and rows?
  bool isMadeOfTiles(const ir::Op &dot) const;
  void set(const ir::Value *v, const LinearLayout &l, Rank rank);
  void set(const ir::Value *v, Home h);

  /// The home; in the last round a default for values without.
  Home source(const ir::Value *v) const;

  void settle();
  void block(const ir::Block &b) {
    for (const ir::Op *op : b.ops)
      visit(*op);
  }
  void visit(const ir::Op &op);
  void carried(const ir::Op &op);
  Home spread(Home h, const ir::Shape &shape);
  void openCarried(const ir::Block &b);
  void giveDefaults(const ir::Block &b);
  Home homeOfUsers(const ir::Value *v, unsigned depth = 2) const;
  Home wantedBy(const ir::Op &user, const ir::Value *v, unsigned depth) const;
  Home ofOperands(const ir::Op &op);
  bool takesOffsetsOfBothAxes(const ir::Op &op, const std::vector<unsigned> &order) const;
  bool isMovedBefore(const ir::Op &op, Home h) const;
  std::optional<LinearLayout> wantedByMemory(const ir::Value *v, unsigned depth) const;

  const ir::Function &f_;
  ir::Module &out_;
  const TargetInfo &target_;
  unsigned warps_;
  AxisFacts facts_;
  std::unordered_map<const ir::Value *, Home> home_;
  mutable std::unordered_map<const ir::Value *, bool> cheap_;
  Users users_;
  std::optional<JoinedStores> joined_;
  bool changed_ = false, last_ = false, waits_ = true; // ofOperands()
  const ir::Op *waiting_ = nullptr;                    // in the last round; the weightiest
  std::unordered_set<const ir::Op *> waiters_, released_; // of a round; those that wait no more
};

} // namespace tegula::gpu
