// The tile IR: SSA values over tiles, structured control flow, one small set of operations (Ops.def; gpu/Ops.def has
// those that only the GPU level has).
//
// A Module owns everything it holds (arena: objects live until the Module dies; removing an op only unlinks it). A
// Module is used by one thread at a time. There is no global state: compilations are independent.
//
// Shape of the thing:
//   Module -> Function -> Region -> Block (exactly one per region) -> Op -> Value
// Control flow is structured (for / while / if with yields); an early `return` of the language is lowered to `if`
// earlier, so a region has one block and values dominate by nesting. Why not MLIR: docs/rationale/ir.md.
#pragma once
#include "ir/Attr.h"
#include "ir/Type.h"
#include "layout/LinearLayout.h"
#include "support/Source.h"
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tegula::ir {

enum class OpKind : uint8_t {
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) Enum,
#include "ir/Ops.def"
#define IR_OP(Enum, name, operands, results, regions, traits, attributes) Enum,
#include "gpu/Ops.def"
};

namespace traits {
enum : uint16_t {
  None = 0, Pure = 1, Elementwise = 2, Reads = 4, Writes = 8, Terminator = 16, Shape = 32, Commutative = 64,
  Shared = 128
};
}

struct OpInfo {
  const char *name;
  int8_t operands, results, regions; // -1: variadic
  uint16_t traits;
  bool ofGpu;        // only the GPU level has it
  AttrSet attrs;     // allowed attributes, hints and those of the GPU level included
  AttrSet needed;    // required attributes
};
const OpInfo &info(OpKind k);
/// Null if no operation has that name.
const OpKind *findOp(std::string_view name);

struct Op;
struct Block;
struct Region;
struct Function;
class Module;

/// An SSA value: result of an op, or argument of a block.
struct Value {
  Type type;
  Op *def = nullptr;      // null for block arguments
  Block *block = nullptr; // owner if a block argument
  uint32_t index = 0;     // result or argument number
  /// Scratch data of one pass; undefined between passes and never read by targets.
  uint32_t mark = 0;
  Value *forward = nullptr;
  std::string name;       // the user's name for it, may be empty; only for printing and debug info
};

struct Op {
  OpKind kind;
  Loc loc;
  std::vector<Value *> operands;
  std::vector<Value *> results;
  std::vector<Region *> regions;
  std::vector<Attr> attrs;
  Block *parent = nullptr;
  /// Chain of call sites through which this op was inlined, innermost first (index into Module::inlineSites, -1: none).
  int32_t inlinedAt = -1;

  Value *result(unsigned i = 0) const { return results[i]; }
  Block *region(unsigned i) const;
  bool has(uint16_t trait) const { return (info(kind).traits & trait) != 0; }
  const AttrValue *find(AttrKey key) const;
  /// The attribute; if absent, the default from its table, or `otherwise`. Each attribute has an accessor of its name:
  /// `op.axis()`.
  template <AttrType T> typename KeyOf<T>::Read get(KeyOf<T> key) const { return read(key, key.otherwise()); }
  int64_t get(IntKey key, int64_t otherwise) const { return read(key, otherwise); }
  std::string_view get(StringKey key, std::string_view otherwise) const { return read(key, otherwise); }
#define IR_ATTR(id, key, type, otherwise) auto id() const { return get(attr::id); }
#include "ir/Attrs.def"
#define IR_ATTR(id, key, type, otherwise) auto id() const { return get(attr::id); }
#include "gpu/Attrs.def"
  /// `value` as an integer or a double; `otherwise` if absent.
  int64_t intValue(int64_t otherwise = 0) const;
  double floatValue(double otherwise = 0) const;
  template <AttrType T> void set(KeyOf<T> key, std::type_identity_t<typename KeyOf<T>::Given> v) {
    set(AttrKey(key), AttrValue(std::move(v)));
  }
  void set(AttrKey key, AttrValue v);
  /// The attributes that an operation of kind `other` may carry, for a replacement of this one.
  std::vector<Attr> attrsFor(OpKind other) const;
  /// Index of the optional mask operand of an access, assertion or histogram. 0: the operation takes no mask.
  size_t maskAt() const;
  /// The mask, null if there is none.
  Value *mask() const { return maskAt() && maskAt() < operands.size() ? operands[maskAt()] : nullptr; }

private:
  int64_t read(IntKey key, int64_t otherwise) const;
  bool read(BoolKey key, bool otherwise) const;
  CmpPred read(PredKey key, CmpPred otherwise) const;
  const AttrValue *read(NumberKey key, const AttrValue *otherwise) const;
  std::string_view read(StringKey key, std::string_view otherwise) const;
  std::span<const int64_t> read(ListKey key, std::span<const int64_t> otherwise) const;
};

struct Block {
  std::vector<Value *> args;
  std::vector<Op *> ops; // the last one is the terminator
  Region *parent = nullptr;
  Op *terminator() const { return ops.empty() ? nullptr : ops.back(); }
};

struct Region {
  Block *block = nullptr; // exactly one
  Op *op = nullptr;       // owner, or null if a function body
  Function *function = nullptr;
};

/// The operands of desc_load, desc_store and desc_reduce by their meaning.
struct DescAccess {
  Value *base;
  std::span<Value *const> extents, strides, offsets; // rank each, outermost dimension first
  Value *value;                                      // stored or combined; null for a load
  const Shape &block;
  unsigned rank() const { return static_cast<unsigned>(extents.size()); }
  /// Whether rows are accessed by index: the first of two offsets is a tensor with an index for each row of the block.
  bool hasRows() const { return offsets[0]->type.isTensor(); }
};
bool isDescOp(OpKind k);
/// `op` must be one of them.
DescAccess descAccess(const Op &op);

inline Block *Op::region(unsigned i) const { return regions[i]->block; }

/// Facts about a kernel argument that hold for this specialization.
struct ArgInfo {
  std::string name;
  Loc loc;
  int64_t divisibility = 1; // of the value (ints) or the address in bytes (pointers)
  bool isConst = false;     // pointer that is never stored to (tl.const)
  bool isSigned = true;     // for ints
  // an earlier argument that is the same address in every launch (passes/MergeArguments.h); -1: none
  int32_t sameAs = -1;
  // of pointers: those with equal numbers may overlap in any way (passes/MergeArguments.h); 0: overlaps with no
  // other
  int32_t overlap = 0;
  int32_t access = -1;      // of merged pointers: accesses through this one, 1 reads, 2 writes, 3 both
};

struct Function {
  std::string name;
  Loc loc;
  bool isKernel = false;
  bool noinline_ = false;
  bool isOrdered = false; // of the GPU level: barriers and waits are in place (gpu/shared/OrderMemory.h)
  std::vector<ArgInfo> argInfo; // parallel to body args
  std::vector<Type> resultTypes;
  Region *body = nullptr;
  Block *block() const { return body->block; }
};

struct InlineSite {
  Loc call;
  std::string callee;
  int32_t parent = -1;
};

class Module {
public:
  Module();
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  std::deque<Function *> functions; // callees before callers; the kernel is the last one
  std::vector<InlineSite> inlineSites;
  /// The layouts that types of this module refer to (Type::layout is 1 + index).
  std::vector<layout::LinearLayout> layouts;
  /// Number for Type::layout; equal layouts get one number.
  uint16_t internLayout(const layout::LinearLayout &l);
  const layout::LinearLayout &layoutOf(const Type &t) const { return layouts[t.layout - 1u]; }
  /// Source files that locations point into; kept alive here.
  std::vector<std::shared_ptr<const SourceFile>> sources;

  Function *createFunction(std::string name, std::span<const Type> args, std::span<const Type> results, Loc loc);
  Function *find(std::string_view name) const;
  /// The single function with isKernel set, or null.
  Function *kernel() const;
  Value *createValue(const Type &t);
  /// Appends an argument to a block, a result to an op.
  Value *addArg(Block *b, const Type &t);
  Value *addResult(Op *op, const Type &t);
  Region *createRegion(std::span<const Type> argTypes, Op *owner);
  /// Appends an empty region (no arguments) to an op with a variadic number of regions.
  Region *addRegion(Op *op);
  /// Creates the op and its results; it is in no block yet. Regions are created empty (no arguments), none if their
  /// number is variadic.
  Op *createOp(OpKind k, Loc loc, std::span<Value *const> operands, std::span<const Type> results,
               std::vector<Attr> attrs = {});

private:
  struct Storage;
  Storage *const storage_; // owned
};

/// Text form; parse(print(m)) gives the same module. The grammar stands in ir/Text.h.
std::string print(const Module &m);
std::string print(const Function &f);
std::string print(const Op &op);

} // namespace tegula::ir
