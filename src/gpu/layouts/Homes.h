// Chooses the anchor layout (the home) of every tensor of a kernel, by the ranks of AssignLayouts.h, and the layouts of
// accesses and dots. It only decides; AssignLayouts.cpp writes the kernel.
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

/// The reason for a home: a stronger rank replaces a weaker one.
enum class Rank : uint8_t { None, Other, Memory, Accumulator };

/// layout: the number of a layout of the output module, from 1 on; 0: none, or not known yet.
struct Home {
  uint16_t layout = 0;
  Rank rank = Rank::None;
};

/// The form of a coalesced access.
struct Access {
  LinearLayout layout;
  int64_t vec = 1;
  int64_t wanted = 1; // elements that would fit one instruction
  unsigned axis = 0;  // along which addresses are consecutive
};

/// A layout made from `l`, that of a split's operand, in which each pair is in one thread (layout::splittable). If a
/// join has just made the operand, as in the steps of a Hadamard transform, the bits of the joined halves and of the
/// pairs swap places. Later steps work on other bits, of which the registers then hold more.
LinearLayout layoutOfPairs(const ir::Value *operand, const LinearLayout &l);

/// The homes of one kernel. Values that are cheap to rematerialize, and results of view operations, have none of their
/// own.
class Homes {
public:
  /// The constructor makes all decisions. It interns layouts in `out`, the module to which the kernel is written.
  Homes(const ir::Function &f, ir::Module &out, const TargetInfo &target, unsigned warps);

  const ir::Function &function() const { return f_; }
  unsigned warps() const { return warps_; }
  layout::Threads threads() const { return {target_.lanes(), warps_}; }
  const TargetInfo &target() const { return target_; }
  const AxisFacts &facts() const { return facts_; }

  /// The layout in which a scan or reduction works: that of a scan (`op` itself, or the one beside a reduction), else
  /// that of the first operand of those with the strongest home.
  Home worksIn(const ir::Op &op) const;

  Home of(const ir::Value *v) const;
  /// The home, or a default for values that have none.
  LinearLayout layoutFor(const ir::Value *v) const;
  const LinearLayout &layoutOf(Home h) const { return out_.layouts[h.layout - 1u]; }

  /// May `v` be rematerialized wherever it is needed?
  bool isCheap(const ir::Value *v) const;

  /// Is `v` a sum (or the like) of cheap values and one value from outside the loop? Then that value is converted once,
  /// instead of the sum in each iteration. Or a tile of pointers at positions that a scan computes? Then the offsets
  /// are converted.
  bool isMovedInParts(const ir::Value *v) const;

  /// Is `op` a load or store at addresses computed from data, with nothing known about neighbours? Then there is
  /// nothing to coalesce. Not for atomics, whose results have a home before their addresses have one.
  bool isScattered(const ir::Op &op) const;
  /// The home for a scattered access, so that no tile of pointers moves: that of its addresses. A load whose addresses
  /// have none takes that of the users of its result; a store at positions that a scan computes takes that of the
  /// loaded value it stores. No layout if threads would hold copies.
  Home besideAddresses(const ir::Op &op) const;

  /// Does `op` load a row, or a few, with which a larger tile is computed, of no more bytes than one access of 16 bytes
  /// by each thread? Then every thread loads the elements that it needs, if that takes at most two accesses. This takes
  /// no more instructions than to load some elements, store them to shared memory and read the needed ones there, and
  /// it takes no barrier. Copies ahead use the widest accesses of that layout; elements that are apart are in fewer
  /// sectors, as lanes share them.
  bool isSpread(const ir::Op &op) const;
  std::optional<Home> homeOfSpread(const ir::Value *v) const;

  /// The home of a row that a loop loads to scale the accumulator of a dot: the layout in which the accumulator's
  /// threads need it, if they have the registers. No layout if `op` is no such load, or (second member true) if the
  /// scaled tile has no home yet.
  std::pair<Home, bool> besideAccumulator(const ir::Op &op) const;

  Access access(const ir::Op &op) const;

  DotChoice choiceOf(const ir::Op &dot) const { return target_.chooseDot(dot, warps_); }
  /// Should an asynchronous dot read A from registers? Yes where A is computed from another dot's result and stays
  /// within its warps (attention), or where the loop computes it from tiles that are read in the layout of the dot's
  /// operand. An operand that memory holds unchanged goes to shared memory without passing through registers.
  bool takesRegisters(const ir::Op &dot, const DotChoice &c) const;

  unsigned runOf(const ir::Op &dot) const;

private:
  /// Is the value that a loop loads only converted to another type for one of its dots? (With 16 bytes a thread, work
  /// with other operands, scales and zeros, would take twice as many elements of them: 1306 -> 1492 us.)
  bool isOnlyWidened(const ir::Op &load) const;
  /// Is A computed in the loop of its dot, only for this dot and dots of other parts of the same value, from rows and
  /// from tiles of 16-bit or 32-bit elements that copies by threads or by TMA can load?
  bool isMadeOfTiles(const ir::Op &dot) const;
  void set(const ir::Value *v, const LinearLayout &l, Rank rank);
  void set(const ir::Value *v, Home h);

  /// The home of `v`; in the last round a default for values without one.
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
  std::unordered_set<const ir::Op *> waiters_, released_; // of a round; those that no longer wait
};

} // namespace tegula::gpu
