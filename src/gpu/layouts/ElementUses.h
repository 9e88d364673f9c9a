// Queries about the element-wise uses of a loaded tensor. AssignLayouts makes them before it decides which threads load
// the elements.
#pragma once
#include "gpu/layouts/NarrowLoads.h"
#include "layout/LinearLayout.h"
#include "passes/AxisFacts.h"
#include "passes/Users.h"
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>

namespace tegula::gpu {

/// The fewest bytes that one asynchronous copy moves.
constexpr int64_t wordBytes = 4;
/// The bytes that a cache reads at once.
constexpr int64_t sectorBytes = 32;

/// Finds, for all values of a function in one walk, the joins on the way to stores.
class JoinedStores {
public:
  JoinedStores(const Users &users, const ir::Block &body) { add(users, body); }
  /// Bytes in memory that an element of `v` becomes after joins (the unpacked quarters of a byte); 0 if no path from
  /// `v` to a store has a join.
  unsigned bytesOf(const ir::Value *v) const;

private:
  struct Bytes {
    unsigned joined = 0, stored = 0; // after a join on the way; counting stores without one, too
  };
  void add(const Users &users, const ir::Block &b);
  Bytes of(const Users &users, const ir::Value *v) const;
  std::unordered_map<const ir::Value *, Bytes> bytes_; // without those that are 0
};
/// Bytes of an element of operand A or B of a dot for which `readsTiles` is true (it reads shared memory), if that
/// operand is computed from `v` element by element in at most `depth` - 1 steps; 0 if there is no such dot.
unsigned tileBytes(const Users &users, const ir::Value *v, unsigned depth,
                   const std::function<bool(const ir::Op &dot)> &readsTiles);
/// Is `v`, or a value computed from it element by element, the operand of a split, which separates the halves of pairs?
/// Looks at `depth` steps.
bool isSplit(const Users &users, const ir::Value *v, unsigned depth);
/// Is operand A or B of a dot computed from `v` element by element? Looks at `depth` steps.
bool feedsDot(const Users &users, const ir::Value *v, unsigned depth);

/// The first access that takes its address or its mask from `v`, through element-wise operations, at most `depth` - 1
/// of them; null if there is none.
const ir::Op *memoryUser(const Users &users, const ir::Value *v, unsigned depth);
/// The path of operations from `v` to the first element-wise operation on a larger tile that combines the broadcast of
/// `v` with other data; that operation is the last of the path. The operations before it are view operations, joins, or
/// element-wise operations (at most `depth` of these). Empty if there is no such path.
std::vector<const ir::Op *> pathToTile(const Users &users, const ir::Value *v, unsigned depth);
/// The same for a load in a loop, to an operation of the same iteration on a tile that is much larger. Empty if there
/// is no such path, or if an operand of a dot is computed from the loaded values.
std::vector<const ir::Op *> scalesIn(const Users &users, const ir::Op &load, unsigned depth);
/// The layout of the value at the beginning of such a path if the last operation works in layout `l`; nullopt if a
/// thread would not hold both elements of a pair that the path joins.
std::optional<layout::LinearLayout> layoutBefore(std::span<const ir::Op *const> path, layout::LinearLayout l);
/// The number of elements of `v` that come from one word of the narrowest tensor it is computed from, element by
/// element; for a join, from a word of each operand. Looks at `depth` operations; values that `isCheap` holds for do
/// not count.
int64_t elementsOfWord(const ir::Value *v, unsigned depth, const std::function<bool(const ir::Value *)> &isCheap);
/// The number of consecutive elements that each thread should load of `load`, where one instruction loads `vec` along
/// `axis`; 0: no preference. It is the number that one instruction loads of a narrower tensor whose elements are
/// combined with those of `load` element by element (a residual stream in fp32 and weights in bf16). Then a thread
/// holds the same elements of both, the wider ones in two instructions that read whole sectors, and neither has to move
/// between threads. Operands of dots have layouts of their own. An operand that can only be loaded by single elements
/// (rows of an odd length) gets the elements of a word instead, so that it is stored to its tile by words: a warp loads
/// them from the same lines. The same is done for large tiles, or several, that cannot be loaded by vectors (an image
/// beside its shifted copies): to move them through shared memory, all of them would be in registers at once, and their
/// single elements are in the same sectors anyway. `isPlain`: does the load have the layout of a coalesced access?
/// `isData`: is the value not rematerialized?
int64_t runBeside(const Users &users, const AxisFacts &facts, const ir::Op &load, unsigned axis, int64_t vec,
                  int64_t threads, const std::function<bool(const ir::Op &)> &isPlain,
                  const std::function<bool(const ir::Value *)> &isData);
/// A scan in the same block of one of the operands of a reduction, along the same axis. The operand crosses threads for
/// the scan anyway, and then few threads are along the axis (running sums by chunks, and the sum of the chunk). Null if
/// there is none.
const ir::Op *scanBeside(const Users &users, const ir::Op &reduce);
/// Is the operation directly in the body of a `for`, not in a branch inside it?
bool isInFor(const ir::Op &op);

} // namespace tegula::gpu
