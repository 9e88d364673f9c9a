// What a producer of its own (SpecializeWarps.h) computes of the kernel: the operands of the copies it starts, the
// bounds and conditions on the way to them, and what these are computed from.
//
//   begin = load starts[batch];  while ... { a binary search };  page = load pages[n / 16];  convert page       the kernel
//   begin = load starts[batch];  while ... { a binary search };  page = load pages[n / 16] in the other layout    the producer
//
// Threads of a producer never meet. What the kernel's threads exchange (an index that both rows and columns of tiles
// need), each of them computes, and loads, for itself.
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

  /// `tiles`: all threads of `warps` warps compute, tiles too, and load indices; else one thread, scalars only. `path`:
  /// the control flow of `m`'s kernel that the producer goes through itself, which whoever emits it writes (For, If);
  /// it may be filled later, before need().
  ProducerPart(ir::Module &m, bool tiles, unsigned warps, const std::unordered_set<const ir::Op *> &path)
      : m_(m), tiles_(tiles), warps_(warps), path_(path) {}

  /// Takes in `v` and what it is computed from. False if that is more than arithmetic and loads of single elements (of
  /// rows of indices, by tiles); the object is of no use then.
  bool need(const ir::Value *v);
  /// Is it to be emitted?
  bool has(const ir::Op &op) const { return ops_.count(&op); }
  /// Is it needed: a value that a For of the path carries, or a result of an If of the path?
  bool carries(const ir::Value *v) const { return carried_.count(v); }
  /// Adds the memory (memoryOf, passes/ArgumentAccess.h) of each load.
  void addLoaded(std::vector<int> &loaded) const;
  /// Appends at `b` what stands for an operation that it has; `map` gives the producer's values for the kernel's, those
  /// that are not in it are the same, and receives the results.
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
  // in other layouts, for the conversions among ops_
  std::unordered_set<const ir::Op *> remade_;
  std::map<std::pair<const ir::Value *, uint16_t>, ir::Value *> made_; // of them, for the present conversion
};

} // namespace tegula::gpu
