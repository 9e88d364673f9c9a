// Table of the visible operations, to find equal ones: a hash table with scopes.
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula {

class EqualOps {
public:
  /// The visible operation that equals `op` at this epoch (Simplify.h), or `op` itself, which then becomes visible.
  /// Operations with regions are never equal. Floats in attributes are compared by bits.
  ir::Op *findOrAdd(ir::Op &op, uint64_t epoch);
  size_t open() const { return entries_.size(); }
  void close(size_t scope);
  /// Number of comparisons of operations so far.
  uint64_t compared() const { return compared_; }

private:
  struct Entry {
    ir::Op *op;
    uint64_t hash, epoch;
    int32_t previous; // entry of the same hash, -1: none
  };
  std::vector<Entry> entries_;
  std::unordered_map<uint64_t, int32_t> heads_;
  uint64_t compared_ = 0;
};

} // namespace tegula
