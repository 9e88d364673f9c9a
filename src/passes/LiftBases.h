// Descriptors of one matrix of a batch: offsets that a program adds to the base become leading dimensions.
//
//   %p = addptr (addptr %K, %head * %sh), %batch * %sb
//   %x = desc_load %p, %rows, %cols, %srow, 1, %i, %j : tensor<64x128>
//     =>  %y = desc_load %K, %heads, %batches, %rows, %cols, %sh, %sb, %srow, 1, %head, %batch, %i, %j : tensor<1x1x64x128>
//         %x = reshape %y
//
// A kernel that makes a descriptor for its batch and head (tl.make_tensor_descriptor(k_ptr + batch * stride + head *
// stride, ...)) has a base that is unknown at launch. Triton writes such a descriptor to global memory in each program.
// Where each summand is a number of the program times a number known at launch, one tensor map of higher rank serves
// all programs, and its coordinates select the matrix. The leading dimensions need no bounds checks: each extent is an
// upper bound of its coordinate.
#pragma once
#include "passes/AxisFacts.h"
#include <functional>
#include <map>

namespace tegula {

/// The lifted accesses of one module, with the data to undo the lifting. Valid until other code changes these accesses.
class LiftedBases {
public:
  explicit LiftedBases(ir::Module &m) : m_(m) {}
  /// Lifts every access of `f` whose base has such a form; a tensor map has at most five dimensions.
  void lift(ir::Function &f);
  /// Undoes the lifting of accesses that `keep` rejects; `dims`: number of leading dimensions that the lifted access
  /// gained.
  void keepOnly(const std::function<bool(const ir::Op &op, unsigned dims)> &keep);
  /// Whether the leading coordinates and strides of a lifted access address the same memory as the base did:
  /// coordinates are not negative, strides are multiples of 16 bytes.
  static bool isExact(const ir::Op &op, unsigned dims, const AxisFacts &facts);
  bool any() const { return !lifted_.empty(); }

private:
  /// A summand of a base: `number`, an i32 of the program, times `stride`, an argument or a constant.
  struct Summand {
    ir::Value *number, *stride;
  };
  struct Lifted {
    ir::Block *block;
    ir::Op *access, *reshape;            // new access, reshape of its tile; of a load `reshape` is the old op
    ir::Op before;                       // the old access
    unsigned dims;
  };
  static bool summands(ir::Value *offset, const ir::Block &entry, std::vector<Summand> &out);
  void liftIn(ir::Block &b, ir::Function &f);
  ir::Value *extentOf(ir::Value *number, ir::Function &f);
  ir::Value *strideOf(ir::Value *stride);

  ir::Module &m_;
  std::vector<Lifted> lifted_;
  std::vector<ir::Op *> prefix_;                                     // operations at the start of the function
  std::map<std::pair<int, int64_t>, ir::Value *> made_;              // by kind and number
  std::map<ir::Value *, ir::Value *> wide_;                          // strides in 64 bits
};

} // namespace tegula
