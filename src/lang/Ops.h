// Typed operations with the language's rules (promotion, broadcasting, checks, casts): the layer that other front ends
// would also call. Every function reports its own errors and then returns Value::error(). Rules: docs/language.md §2.
#pragma once
#include "lang/Builtin.h"

namespace tegula::lang {

enum class BinOp : uint8_t { Add, Sub, Mul, Div, FloorDiv, Mod, Pow, LShift, RShift, And, Or, Xor, MatMul };
enum class Cmp : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
const char *spelling(BinOp op);
const char *spelling(Cmp op);

/// The operators. If both operands are compile-time objects: Python's meaning (`//` floors, `/` true division,
/// tuple + and *, string +, comparison of tuples). Otherwise tensor semantics. `loc` is the whole expression, lhs/rhs
/// its operands.
Value binary(Context &c, BinOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc);
Value compare(Context &c, Cmp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc);
Value negate(Context &c, const Value &a, Loc loc);
Value invert(Context &c, const Value &a, Loc loc);
Value plus(Context &c, const Value &a, Loc loc);
/// `not x`: Python truth of compile-time objects; int1 tensors.
Value logicalNot(Context &c, const Value &a, Loc loc);
/// `and` / `or` of two runtime values (sema handles short-circuiting and compile-time operands).
Value logicalAndOr(Context &c, bool isAnd, const Value &a, const Value &b, Loc loc);

/// A literal or tensor as tensor, by the literal rule of §2.2. Tensors pass through. None, strings...: an error.
Value toTensor(Context &c, const Value &v, Loc loc);
/// A number as a constant of a given dtype (scalar, or splat of `shape`); reports if it does not fit.
Value constant(Context &c, const Value &number, Dtype dtype, Loc loc, const ir::Shape &shape = {});
/// The dtype a number decays to (§2.2); nullopt if not representable.
std::optional<Dtype> literalDtype(const Value &number);
/// x.to(dtype): §2.6. `roundingLoc`: the place of the rounding mode (unknown: `loc`).
Value cast(Context &c, const Value &x, Dtype to, Loc loc, const Value &rounding = Value::none(), bool bitcast = false,
           Loc roundingLoc = {});
/// Broadcasts a tensor to a shape it is compatible with (left-padding ranks); reports otherwise.
Value broadcastTo(Context &c, const Value &x, const ir::Shape &shape, Loc loc);
/// Broadcasts both to their common shape; reports and returns false if there is none.
bool broadcastPair(Context &c, Value &a, Value &b, Loc loc);
/// Result dtype of §2.3 for two operands, given as tensors or numbers; reports and returns nullopt if there is none.
std::optional<Dtype> promote(Context &c, const Value &a, const Value &b, bool isDivOrMod, Loc loc);
/// Runtime scalar int1 for `if`/`while`: compares with 0 any int, float, or pointer scalar; one-element blocks are
/// accepted.
Value truth(Context &c, const Value &v, Loc loc);
/// Python truth of a compile-time object.
bool constexprTruth(const Value &v);
/// Python's slice.indices(): the positions that a:b:c picks from n items; nullopt if a part is not an integer or the
/// step is 0.
std::optional<std::vector<size_t>> slicePositions(const SliceValue &s, Int n);
/// x[...] on a tensor: None and `:`, and unless the target is strict, slices of compile-time integers, integers (also
/// scalars known at run time) and `...`. `index` is the evaluated subscript (a tuple for several).
Value subscript(Context &c, const Value &x, const Value &index, Loc loc);

/// Properties of tensors and dtypes: x.shape, x.dtype, x.type, x.numel, x.T, dtype.is_fp8(),
/// dtype.primitive_bitwidth, ...
/// Methods come back as BoundMethod. Returns nullopt if there is no such attribute (nothing reported).
std::optional<Value> attribute(Context &c, const Value &object, std::string_view name, Loc loc);
/// Attributes of every compile-time object besides its own, as if it were in the wrapper `tl.constexpr`: `value`, the
/// object itself, and `type`, a tl.constexpr_type that holds it. hasattr() and getattr() do not see them.
std::optional<Value> wrapperAttribute(const Value &object, std::string_view name);

/// Whether field `i` of the class of aggregates may hold `v`; reports if not.
bool checkField(Context &c, const RecordClass &cls, size_t i, const Value &v, Loc loc);

/// A list of compile-time ints (shape, axes); reports and returns nullopt if `v` is none.
std::optional<std::vector<int64_t>> intList(Context &c, const Value &v, Loc loc, std::string_view what);
/// Whether a block may have `n` elements along a dimension. Other numbers than powers of two are recorded as an
/// extension.
bool allowsExtent(Context &c, int64_t n, Loc loc);
/// Whether all extents are powers of two, as `function` requires; reports if not.
bool requirePowers(Context &c, const char *function, const ir::Shape &s, Loc loc);
/// Checks the rules of §2.1 for block shapes (extents, numel); reports.
std::optional<ir::Shape> blockShape(Context &c, const Value &v, Loc loc);

} // namespace tegula::lang
