// What becomes of the elements of a loaded tensor, one by one: AssignLayouts asks before it says which threads load
// them.
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

/// The least that one asynchronous copy moves.
constexpr int64_t wordBytes = 4;
/// What a cache reads at once.
constexpr int64_t sectorBytes = 32;

/// Where joins lead to stores, for all values of a function in one walk.
class JoinedStores {
public:
  JoinedStores(const Users &users, const ir::Block &body) { add(users, body); }
  /// Bytes in memory that an element of `v` becomes there: unpacked quarters of a byte; 0 if it is stored elsewhere, or
  /// none is joined.
  unsigned bytesOf(const ir::Value *v) const;

private:
  struct Bytes {
    unsigned joined = 0, stored = 0; // after a join on the way; counting stores without one, too
  };
  void add(const Users &users, const ir::Block &b);
  Bytes of(const Users &users, const ir::Value *v) const;
  std::unordered_map<const ir::Value *, Bytes> bytes_; // without those that are 0
};
/// Bytes of an element of the operand that `v` becomes, element by element in `depth` steps, of a dot for which
/// `readsTiles` is true (it reads shared memory); 0 if there is none.
unsigned tileBytes(const Users &users, const ir::Value *v, unsigned depth,
                   const std::function<bool(const ir::Op &dot)> &readsTiles);
/// Is `v`, or what is computed from it element by element in `depth` steps, split into halves of pairs?
bool isSplit(const Users &users, const ir::Value *v, unsigned depth);
/// Is an operand of a product computed from `v`, element by element in `depth` steps?
bool feedsDot(const Users &users, const ir::Value *v, unsigned depth);

/// The first access that takes its address or its mask from `v`, through element-wise operations, at most `depth` - 1
/// of them; null if there is none.
const ir::Op *memoryUser(const Users &users, const ir::Value *v, unsigned depth);
/// The way from `v` to the first operation on the elements of a larger tile that is computed with what is broadcast
/// from `v`, and with other data: that operation is the last. Those in front of it rename coordinates, join, or work
/// element by element, at most `depth` of these. Empty: there is none.
std::vector<const ir::Op *> pathToTile(const Users &users, const ir::Value *v, unsigned depth);
/// The same of a load in a loop, to an operation of the same iteration on a tile that is much larger, where no operand
/// of a product comes of what is loaded; empty if it is none.
std::vector<const ir::Op *> scalesIn(const Users &users, const ir::Op &load, unsigned depth);
/// Where what stands before the first operation of such a path lies if the last one works on a tile in layout `l`;
/// nullopt: a thread would not have both of a pair that it joins.
std::optional<layout::LinearLayout> layoutBefore(std::span<const ir::Op *const> path, layout::LinearLayout l);
/// Elements of `v` that come from one word of the narrowest tensor it is computed from, element by element: of a join,
/// of a word of each operand. Looks at `depth` operations; what `isCheap` is no data.
int64_t elementsOfWord(const ir::Value *v, unsigned depth, const std::function<bool(const ir::Value *)> &isCheap);
/// Elements that one instruction loads of a narrower tensor whose elements meet those of `load`, element by element (a
/// residual stream in fp32 and weights in bf16), where one of `load` takes `vec` along `axis`: a thread has as many of
/// both then, the wider ones in two instructions that read whole sectors, so that neither has to change threads. Not of
/// what products read, which has layouts of its own;
/// but what can only be loaded by single elements for one (rows of an odd length) is stored to its tile by words then:
/// a warp loads them from the same lines. So have large tiles, or several, that cannot be loaded by vectors (an image
/// beside its shifted copies): to move them through shared memory all would be held in registers at once, and their
/// single elements are in the same sectors. `isPlain`: a load that lives where memory wants it; `isData`: a value that
/// is not computed again wherever it is needed. 0: there is none.
int64_t runBeside(const Users &users, const AxisFacts &facts, const ir::Op &load, unsigned axis, int64_t vec,
                  int64_t threads, const std::function<bool(const ir::Op &)> &isPlain,
                  const std::function<bool(const ir::Value *)> &isData);
/// A scan in the same block along the axis of a reduction, of one of its operands: the operand crosses threads for that
/// anyway, and few threads are along the axis then (running sums by chunks, and the sum of the chunk).
/// Null: there is none.
const ir::Op *scanBeside(const Users &users, const ir::Op &reduce);
/// Is the operation in the body of a `for`, not in one of its branches?
bool isInFor(const ir::Op &op);

} // namespace tegula::gpu
