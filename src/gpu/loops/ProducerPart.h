// The part of the kernel that dedicated producer warps (SpecializeWarps.h) compute: the operands of the copies that
// they start, the bounds and conditions of the control flow around the copies, and the inputs of all of these.
//
//   begin = load starts[batch];  while ... { a binary search };  page = load pages[n / 16];  convert page       the kernel
//   begin = load starts[batch];  while ... { a binary search };  page = load pages[n / 16] in the other layout    the producer
//
// Threads of a producer never synchronize. Where the kernel's threads exchange a value (an index that both rows and
// columns of tiles need), each thread of the producer computes and loads it in each layout that it needs.
#pragma once
#include "gpu/LoopSlice.h"
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tegula::gpu {

class ProducerPart {
public:
  using Map = LoopSlice::Map;

  /// `tiles`: all threads of `warps` warps compute scalars and tiles, and load indices; else one thread computes
  /// scalars only. `path`: the control flow (For, If) of `m`'s kernel that the producer repeats, and that the caller
  /// emits. The object keeps a reference to it; fill it before need().
  ProducerPart(ir::Module &m, bool tiles, unsigned warps, const std::unordered_set<const ir::Op *> &path)
      : m_(m), tiles_(tiles), warps_(warps), path_(path) {}

  /// Adds `v` and everything that it is computed from. False if that takes more than arithmetic, control flow without
  /// dots, and loads of single elements (with `tiles`, of rows of indices, too). Do not use the object after that.
  bool need(const ir::Value *v);
  /// Must the caller emit the operation?
  bool has(const ir::Op &op) const { return ops_.count(&op); }
  /// Is `v`, a value that a For of the path carries or a result of an If of the path, needed?
  bool carries(const ir::Value *v) const { return carried_.count(v); }
  /// Appends to `loaded` the memory (memoryOf, passes/ArgumentAccess.h) of each needed load.
  void addLoaded(std::vector<int> &loaded) const;
  /// Appends at `b` the producer's version of an operation that has() accepts. `map` maps the kernel's values to the
  /// producer's and receives the results; a value that is not in it is the same for both.
  void emit(ir::Builder &b, const ir::Op &op, Map &map);

private:
  bool needOp(const ir::Op &op);
  bool needWhole(const ir::Op &op);
  bool needIn(const ir::Value *v);
  bool takesLoad(const ir::Op &op) const;
  void giveToWarps(ir::Op &op);
  ir::Value *emitIn(ir::Builder &b, const ir::Value *v, uint16_t layout, const Map &map);

  ir::Module &m_;
  const bool tiles_;
  const unsigned warps_;
  const std::unordered_set<const ir::Op *> &path_;
  std::unordered_set<const ir::Op *> ops_;
  std::unordered_set<const ir::Value *> carried_;
  // rematerialized in other layouts, for the conversions among ops_
  std::unordered_set<const ir::Op *> remade_;
  std::map<std::pair<const ir::Value *, uint16_t>, ir::Value *> made_; // those of the current conversion, by layout
};

} // namespace tegula::gpu
