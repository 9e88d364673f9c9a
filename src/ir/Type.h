// Types of the tile IR: signless scalars, pointers, and tensors of either.
//
// Types are small values compared by content; there is no context to intern them in. Signedness is not part of them:
// the language layer (lang/) tracks it, and operations encode it (sdiv/udiv, sext/zext, cmp slt/ult).
#pragma once
#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tegula::ir {

/// Element kinds. Floats narrower than 16 bits: F8E5M2 (OCP e5m2), F8E4M3FN (OCP e4m3fn), F8E4B15 (Triton's software
/// type, bias 15), F8E4B8 (e4m3fnuz), F8E5B16 (e5m2fnuz).
enum class Elem : uint8_t {
  Void, I1, I8, I16, I32, I64, F8E5M2, F8E4M3FN, F8E4B15, F8E4B8, F8E5B16, F16, BF16, F32, F64
};

unsigned bitWidth(Elem e);                                     // I1 -> 1
inline unsigned byteWidth(Elem e) { return (bitWidth(e) + 7) / 8; } // bytes in memory; I1 -> 1
inline bool isInt(Elem e) { return e >= Elem::I1 && e <= Elem::I64; }
inline bool isFloat(Elem e) { return e >= Elem::F8E5M2; }
inline bool isFp8(Elem e) { return e >= Elem::F8E5M2 && e <= Elem::F8E5B16; }
const char *name(Elem e); // "i32", "f32", "bf16", "f8e5m2", ...

/// Extents of a tensor, outermost first; rank 0 means scalar. Extents are >= 1. At most 24 dimensions (a bitonic sort
/// of 2^20 elements works on a hypercube of rank 20).
class Shape {
public:
  static constexpr unsigned maxRank = 24;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) { for (int64_t d : dims) push(d); }
  template <typename It> Shape(It first, It last) { for (; first != last; ++first) push(*first); }
  unsigned rank() const { return rank_; }
  int64_t operator[](unsigned i) const { assert(i < rank_); return dims_[i]; }
  void set(unsigned i, int64_t v) { assert(i < rank_); dims_[i] = static_cast<int32_t>(v); }
  void push(int64_t v) { assert(rank_ < maxRank); dims_[rank_++] = static_cast<int32_t>(v); }
  void erase(unsigned i) { for (; i + 1 < rank_; ++i) dims_[i] = dims_[i + 1]; dims_[--rank_] = 0; }
  void insert(unsigned i, int64_t v) {
    assert(rank_ < maxRank && i <= rank_);
    for (unsigned j = rank_++; j > i; --j) dims_[j] = dims_[j - 1];
    dims_[i] = static_cast<int32_t>(v);
  }
  int64_t numel() const { int64_t n = 1; for (unsigned i = 0; i < rank_; ++i) n *= dims_[i]; return n; }
  const int32_t *begin() const { return dims_.data(); }
  const int32_t *end() const { return dims_.data() + rank_; }
  bool operator==(const Shape &) const = default;

private:
  uint8_t rank_ = 0;
  std::array<int32_t, maxRank> dims_{};
};

/// void | scalar | pointer to scalar | tensor of scalars | tensor of pointers | (GPU only) tile in shared memory. A
/// rank-0 shape is a scalar.
struct Type {
  Elem elem = Elem::Void; // element, or pointee if isPtr
  bool isPtr = false;
  Shape shape;
  /// The thread of a GPU that holds each element: 1 + index into Module::layouts. 0: undecided (always, above src/gpu).
  uint16_t layout = 0;
  /// A tile in the block's shared memory: the value is its address, and the layout maps offsets (in elements) to
  /// coordinates.
  bool isShared = false;

  static Type none() { return {}; }
  static Type scalar(Elem e) { return {e, false, {}}; }
  static Type ptr(Elem pointee) { return {pointee, true, {}}; }
  static Type tensor(Shape s, Elem e) { return {e, false, s}; }
  static Type ptrTensor(Shape s, Elem pointee) { return {pointee, true, s}; }
  static Type shared(Shape s, Elem e, uint16_t layout) { return {e, false, s, layout, true}; }

  bool isVoid() const { return elem == Elem::Void && !isPtr; }
  bool isTensor() const { return shape.rank() != 0; }
  bool isScalar() const { return shape.rank() == 0; }
  bool isIntLike() const { return !isPtr && ir::isInt(elem); }
  bool isFloatLike() const { return !isPtr && ir::isFloat(elem); }
  /// The layout is dropped: it belongs to the old shape.
  Type withShape(Shape s) const { return {elem, isPtr, s}; }
  Type withElem(Elem e) const { return {e, false, shape, layout}; }
  Type withLayout(uint16_t id) const { return {elem, isPtr, shape, id}; }
  Type scalarType() const { return {elem, isPtr, {}}; }
  int64_t numel() const { return shape.numel(); }
  bool operator==(const Type &) const = default;
};

/// "i32", "ptr<f16>", "tensor<128x64xf32>", "tensor<128xptr<f16>>", "tensor<128xf32, L1>" (layout 1),
/// "shared<128x64xbf16, L3>", "void".
std::string str(const Type &t);

} // namespace tegula::ir
