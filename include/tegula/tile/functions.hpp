// The functions of the language. Included by tegula/tile.hpp.
//
// Names, defaults and meaning are those of docs/language.md, where each is described; in C++ axes and shapes are ordinary numbers, options are fields:
//   load(p + i, mask, 0.0, {.eviction = "evict_last"}), sum(x, 1, {.keep_dims = true})
#pragma once
#include "tegula/tile/structs.hpp"
#include <bit>

namespace tegula {
inline namespace v0 {
namespace tile {

namespace detail {

template <typename U> using ElementOfTile = typename std::remove_cvref_t<U>::element;
template <typename U> inline constexpr bool isNone = std::same_as<std::remove_cvref_t<U>, None>;
template <typename U>
concept BoolTile = AnyTile<U> && codeOf<U> == TEGULA_INT1;
inline std::string list(Shape s) {
  std::string text = "[";
  for (int n : s) text += (text.size() > 1 ? ", " : "") + literal(n);
  return text + "]";
}
/// `, name=$` and the part, unless it is none.
template <typename U> void keyword(std::string &format, std::vector<Part> &parts, std::string_view name, U &&u) {
  if constexpr (!isNone<U>) {
    format += ", " + std::string(name) + "=$";
    parts.push_back(partOf(std::forward<U>(u)));
  }
}
inline void keyword(std::string &format, std::string_view name, std::string_view text) {
  if (!text.empty()) format += ", " + std::string(name) + "=" + quoted(text);
}
/// A call of functions of tiles and numbers: name($, $).
template <typename R, typename... U> Tile<R> call(const Place &at, std::string_view name, U &&...u) {
  std::string format = std::string(name) + "(";
  for (size_t i = 0; i < sizeof...(U); ++i) format += i ? ", $" : "$";
  // Braces: from left to right.
  return tileOf<R>(at, format + ")", std::vector<Part>{partOf(std::forward<U>(u))...});
}

/// A call that gives several tiles.
template <typename... R> std::tuple<Tile<R>...> tilesOf(const Place &at, std::string_view format, std::vector<Part> parts) {
  return valueOf<std::tuple<Tile<R>...>>(at, format, std::move(parts));
}

template <typename P, typename M> constexpr void checkAccess() {
  static_assert(AnyPtr<P>, "the first operand is an address: a Ptr<T>, perhaps with offsets");
  static_assert(isNone<M> || BoolTile<M> || std::same_as<std::remove_cvref_t<M>, bool>, "a mask is a tile of bool: compare with 0");
}
template <typename P, typename M> constexpr void checkWrite() {
  checkAccess<P, M>();
  if constexpr (AnyPtr<P>) static_assert(!std::is_const_v<ElementOfTile<P>>, "a kernel does not write through a Ptr<const T>: make the parameter a Ptr<T>");
}

} // namespace detail

// ---- where a program is, and numbers to start from

/// Which program this is, and how many there are, in dimension `axis` of the grid.
inline Tile<int32_t> program_id(int axis, Place at = Place::current()) { return detail::tileOf<int32_t>(at, "tl.program_id(" + detail::literal(axis) + ")", {}); }
inline Tile<int32_t> num_programs(int axis, Place at = Place::current()) { return detail::tileOf<int32_t>(at, "tl.num_programs(" + detail::literal(axis) + ")", {}); }
/// start, start + 1, ..., end - 1.
inline Tile<int32_t> arange(int start, int end, Place at = Place::current()) {
  return detail::tileOf<int32_t>(at, "tl.arange(" + detail::literal(start) + ", " + detail::literal(end) + ")", {});
}
template <TileElement T> Tile<T> zeros(Shape shape, Place at = Place::current()) {
  static_assert(!std::same_as<T, integer>, "say the width: zeros<int32_t>");
  return detail::tileOf<T>(at, "tl.zeros(" + detail::list(shape) + ", " + detail::CodeOf<T>::name + ")", {});
}
template <typename T> Tile<T> zeros_like(const Tile<T> &x, Place at = Place::current()) { return detail::call<T>(at, "tl.zeros_like", x); }
template <TileElement T, detail::Operand U> Tile<T> full(Shape shape, U &&value, Place at = Place::current()) {
  static_assert(!std::same_as<T, integer>, "say the width: full<int32_t>");
  return detail::tileOf<T>(at, "tl.full(" + detail::list(shape) + ", $, " + detail::CodeOf<T>::name + ")", {detail::partOf(std::forward<U>(value))});
}
/// The number of blocks of `size` that cover n, of ordinary numbers and of those of the kernel.
constexpr auto cdiv(std::integral auto n, std::integral auto size) { return (n + size - 1) / size; }
template <detail::Operand A, detail::Operand B>
  requires(detail::AnyTile<A> || detail::AnyTile<B>)
auto cdiv(A &&n, B &&size, Place at = Place::current()) {
  static_assert(detail::isIndex<A> && detail::isIndex<B>, "cdiv is of whole numbers");
  return detail::call<detail::Promoted<A, B>>(at, "tl.cdiv", std::forward<A>(n), std::forward<B>(size));
}

/// The smallest power of two that is not below n.
constexpr int next_power_of_2(int n) { return n <= 1 ? 1 : 1 << (32 - std::countl_zero(static_cast<unsigned>(n - 1))); }

// ---- memory

/// How memory is read (docs/language.md, load).
struct LoadOptions {
  const char *cache = "", *eviction = "";
  bool is_volatile = false;
};
struct StoreOptions {
  const char *cache = "", *eviction = "";
};
struct AtomicOptions {
  const char *sem = "", *scope = "";
};

/// The elements at the addresses; where `mask` is false those of `other`, or anything if there is none.
template <typename P, typename M = None, typename O = None>
  requires(!detail::isBlockPtr<std::remove_cvref_t<P>>)
auto load(P &&p, M &&mask = {}, O &&other = {}, LoadOptions options = {}, Place at = Place::current()) {
  detail::checkAccess<P, M>();
  std::string format = "tl.load($";
  std::vector<detail::Part> parts{detail::partOf(std::forward<P>(p))};
  detail::keyword(format, parts, "mask", std::forward<M>(mask));
  detail::keyword(format, parts, "other", std::forward<O>(other));
  detail::keyword(format, "cache_modifier", options.cache);
  detail::keyword(format, "eviction_policy", options.eviction);
  if (options.is_volatile) format += ", volatile=True";
  return detail::tileOf<std::remove_const_t<detail::ElementOfTile<P>>>(at, format + ")", std::move(parts));
}
/// Writes the value, converted to the type of the memory, where `mask` is true.
template <typename P, detail::Operand V, typename M = None>
  requires(!detail::isBlockPtr<std::remove_cvref_t<P>>)
void store(P &&p, V &&value, M &&mask = {}, StoreOptions options = {}, Place at = Place::current()) {
  detail::checkWrite<P, M>();
  std::string format = "tl.store($, $";
  std::vector<detail::Part> parts{detail::partOf(std::forward<P>(p)), detail::partOf(std::forward<V>(value))};
  detail::keyword(format, parts, "mask", std::forward<M>(mask));
  detail::keyword(format, "cache_modifier", options.cache);
  detail::keyword(format, "eviction_policy", options.eviction);
  detail::trace().effect(at, format + ")", std::move(parts));
}

#define TEGULA_TILE_ATOMIC(name)                                                                                                                     \
  template <typename P, detail::Operand V, typename M = None>                                                                                        \
  auto name(P &&p, V &&value, M &&mask = {}, AtomicOptions options = {}, Place at = Place::current()) {                                              \
    detail::checkWrite<P, M>();                                                                                                                      \
    std::string format = "tl." #name "($, $";                                                                                                        \
    std::vector<detail::Part> parts{detail::partOf(std::forward<P>(p)), detail::partOf(std::forward<V>(value))};                                     \
    detail::keyword(format, parts, "mask", std::forward<M>(mask));                                                                                   \
    detail::keyword(format, "sem", options.sem);                                                                                                     \
    detail::keyword(format, "scope", options.scope);                                                                                                 \
    return detail::tileOf<detail::ElementOfTile<P>>(at, format + ")", std::move(parts));                                                             \
  }
/// Each changes memory as one step and gives what was there before.
TEGULA_TILE_ATOMIC(atomic_add)
TEGULA_TILE_ATOMIC(atomic_max)
TEGULA_TILE_ATOMIC(atomic_min)
TEGULA_TILE_ATOMIC(atomic_and)
TEGULA_TILE_ATOMIC(atomic_or)
TEGULA_TILE_ATOMIC(atomic_xor)
TEGULA_TILE_ATOMIC(atomic_xchg)
#undef TEGULA_TILE_ATOMIC
template <typename P, detail::Operand C, detail::Operand V>
auto atomic_cas(P &&p, C &&expected, V &&value, AtomicOptions options = {}, Place at = Place::current()) {
  detail::checkWrite<P, None>();
  std::string format = "tl.atomic_cas($, $, $";
  detail::keyword(format, "sem", options.sem);
  detail::keyword(format, "scope", options.scope);
  return detail::tileOf<detail::ElementOfTile<P>>(at, format + ")", std::vector<detail::Part>{detail::partOf(std::forward<P>(p)), detail::partOf(std::forward<C>(expected)), detail::partOf(std::forward<V>(value))});
}

/// Memory as one step reads or writes it: the read acquires, the write releases, unless the options say otherwise.
template <typename P, typename M = None> auto atomic_load(P &&p, M &&mask = {}, AtomicOptions options = {}, Place at = Place::current()) {
  detail::checkAccess<P, M>();
  std::string format = "tl.atomic_load($";
  std::vector<detail::Part> parts{detail::partOf(std::forward<P>(p))};
  detail::keyword(format, parts, "mask", std::forward<M>(mask));
  detail::keyword(format, "sem", options.sem);
  detail::keyword(format, "scope", options.scope);
  return detail::tileOf<std::remove_const_t<detail::ElementOfTile<P>>>(at, format + ")", std::move(parts));
}
template <typename P, detail::Operand V, typename M = None> void atomic_store(P &&p, V &&value, M &&mask = {}, AtomicOptions options = {}, Place at = Place::current()) {
  detail::checkWrite<P, M>();
  std::string format = "tl.atomic_store($, $";
  std::vector<detail::Part> parts{detail::partOf(std::forward<P>(p)), detail::partOf(std::forward<V>(value))};
  detail::keyword(format, parts, "mask", std::forward<M>(mask));
  detail::keyword(format, "sem", options.sem);
  detail::keyword(format, "scope", options.scope);
  detail::trace().effect(at, format + ")", std::move(parts));
}
/// Waits until memory has held `expected`, or for so long; where it has.
template <typename P, detail::Operand V, typename T = None> Tile<bool> atomic_poll(P &&p, V &&expected, AtomicOptions options = {}, T &&timeout_ns = {}, Place at = Place::current()) {
  detail::checkAccess<P, None>();
  std::string format = "tl.atomic_poll($, $";
  std::vector<detail::Part> parts{detail::partOf(std::forward<P>(p)), detail::partOf(std::forward<V>(expected))};
  detail::keyword(format, "sem", options.sem);
  detail::keyword(format, "scope", options.scope);
  detail::keyword(format, parts, "timeout_ns", std::forward<T>(timeout_ns));
  return detail::tileOf<bool>(at, format + ")", std::move(parts));
}

// ---- element by element

#define TEGULA_TILE_UNARY(name)                                                                                                                      \
  template <detail::AnyTile X> auto name(X &&x, Place at = Place::current()) {                                                                       \
    using T = detail::ElementOfTile<X>;                                                                                                              \
    static_assert(detail::isReal<T>, #name " is of real numbers: convert whole ones first, x.to<float>()");                                          \
    return detail::call<T>(at, "tl." #name, std::forward<X>(x));                                                                                     \
  }
#include "tegula/tile/elementwise.inc"
#undef TEGULA_TILE_UNARY
template <detail::AnyTile X> auto abs(X &&x, Place at = Place::current()) { return detail::call<detail::ElementOfTile<X>>(at, "tl.abs", std::forward<X>(x)); }
template <detail::AnyTile X> auto sigmoid(X &&x, Place at = Place::current()) { return detail::call<detail::ElementOfTile<X>>(at, "tl.sigmoid", std::forward<X>(x)); }

/// x where the condition holds, else y; both are computed.
template <detail::AnyTile C, detail::Operand X, detail::Operand Y> auto where(C &&condition, X &&x, Y &&y, Place at = Place::current()) {
  static_assert(detail::BoolTile<C>, "the condition of where is a tile of bool: compare with 0");
  using R = detail::Promoted<X, Y>;
  static_assert(!std::is_void_v<R>, "these element types have no common type: convert one of the operands, x.to<T>()");
  return detail::call<R>(at, "tl.where", std::forward<C>(condition), std::forward<X>(x), std::forward<Y>(y));
}
/// Of two structs or tuples of tiles, member by member; of two addresses.
template <detail::AnyTile C, detail::Bundle S> S where(const C &condition, const S &x, const S &y, Place at = Place::current()) {
  static_assert(detail::BoolTile<C>, "the condition of where is a tile of bool: compare with 0");
  std::vector<detail::Part> left = detail::partsOf(x), right = detail::partsOf(y);
  size_t next = 0;
  auto leaf = [&]<typename L>(L *) {
    size_t i = next++;
    return detail::leafOf<L>(at, "tl.where($, $, $)", std::vector<detail::Part>{detail::partOf(condition), left[i], right[i]});
  };
  return detail::makeOf<S>(leaf);
}
template <detail::Number C, typename X, typename Y> void where(C, X &&, Y &&) TEGULA_DELETED("this condition is known to C++: write `?:`");
template <detail::AnyTile C, typename T> Ptr<T> where(const C &condition, const Ptr<T> &x, const Ptr<T> &y, Place at = Place::current()) {
  static_assert(detail::BoolTile<C>, "the condition of where is a tile of bool: compare with 0");
  return detail::ptrOf<T>(at, "tl.where($, $, $)", std::vector<detail::Part>{detail::partOf(condition), detail::partOf(x), detail::partOf(y)});
}
#define TEGULA_TILE_BINARY(name)                                                                                                                     \
  template <detail::Operand X, detail::Operand Y>                                                                                                    \
    requires(detail::AnyTile<X> || detail::AnyTile<Y>)                                                                                               \
  auto name(X &&x, Y &&y, Place at = Place::current()) {                                                                                             \
    using R = detail::Promoted<X, Y>;                                                                                                                \
    static_assert(!std::is_void_v<R>, "these element types have no common type: convert one of the operands, x.to<T>()");                            \
    return detail::call<R>(at, "tl." #name, std::forward<X>(x), std::forward<Y>(y));                                                                 \
  }
TEGULA_TILE_BINARY(div_rn)
/// Of floats; to 2 ulp where it may be approximate, correctly rounded with `ieee_rounding`.
struct DivideOptions {
  bool ieee_rounding = false, approx = false;
};
template <detail::Operand X, detail::Operand Y>
  requires(detail::AnyTile<X> || detail::AnyTile<Y>)
auto fdiv(X &&x, Y &&y, DivideOptions options = {}, Place at = Place::current()) {
  using R = detail::Promoted<X, Y, true>;
  static_assert(!std::is_void_v<R>, "these element types have no common type: convert one of the operands, x.to<T>()");
  const char *format = options.ieee_rounding ? "tl.fdiv($, $, ieee_rounding=True)" : options.approx ? "tl.fdiv($, $, approx=True)" : "tl.fdiv($, $)";
  return detail::tileOf<R>(at, format, std::vector<detail::Part>{detail::partOf(std::forward<X>(x)), detail::partOf(std::forward<Y>(y))});
}
/// What is no number is ignored, unless it is to be passed on.
struct NanOptions {
  bool propagate_nan = false;
};
#define TEGULA_TILE_EXTREMUM(name)                                                                                                                   \
  template <detail::Operand X, detail::Operand Y>                                                                                                    \
    requires(detail::AnyTile<X> || detail::AnyTile<Y>)                                                                                               \
  auto name(X &&x, Y &&y, NanOptions options = {}, Place at = Place::current()) {                                                                    \
    using R = detail::Promoted<X, Y>;                                                                                                                \
    static_assert(!std::is_void_v<R>, "these element types have no common type: convert one of the operands, x.to<T>()");                            \
    return detail::tileOf<R>(at, options.propagate_nan ? "tl." #name "($, $, propagate_nan=tl.PropagateNan.ALL)" : "tl." #name "($, $)",              \
                             std::vector<detail::Part>{detail::partOf(std::forward<X>(x)), detail::partOf(std::forward<Y>(y))});                     \
  }
TEGULA_TILE_EXTREMUM(maximum)
TEGULA_TILE_EXTREMUM(minimum)
#undef TEGULA_TILE_EXTREMUM
// As operators do; arithmetic that may wrap around without a fault in debug builds is `wrapping`.
struct ArithmeticOptions {
  bool wrapping = false;
};
#define TEGULA_TILE_ARITHMETIC(name)                                                                                                                 \
  template <detail::Operand X, detail::Operand Y>                                                                                                    \
    requires(detail::AnyTile<X> || detail::AnyTile<Y>)                                                                                               \
  auto name(X &&x, Y &&y, ArithmeticOptions options = {}, Place at = Place::current()) {                                                             \
    using R = detail::Promoted<X, Y>;                                                                                                                \
    static_assert(!std::is_void_v<R>, "these element types have no common type: convert one of the operands, x.to<T>()");                            \
    return detail::tileOf<R>(at, options.wrapping ? "tl." #name "($, $, sanitize_overflow=False)" : "tl." #name "($, $)",                             \
                             std::vector<detail::Part>{detail::partOf(std::forward<X>(x)), detail::partOf(std::forward<Y>(y))});                     \
  }
TEGULA_TILE_ARITHMETIC(add)
TEGULA_TILE_ARITHMETIC(sub)
TEGULA_TILE_ARITHMETIC(mul)
#undef TEGULA_TILE_ARITHMETIC
/// x.to<T>()
template <TileElement T, detail::AnyTile X> auto cast(X &&x, CastOptions options = {}, Place at = Place::current()) { return std::forward<X>(x).template to<T>(options, at); }
/// A number as a scalar of the kernel, of the type that it has in the language.
template <detail::Number N> auto to_tensor(N n, Place at = Place::current()) { return detail::call<typename detail::ElementOf<detail::numberCode<N>()>::type>(at, "tl.to_tensor", n); }
#undef TEGULA_TILE_BINARY
template <detail::AnyTile X, detail::Operand Lo, detail::Operand Hi> auto clamp(X &&x, Lo &&lo, Hi &&hi, NanOptions options = {}, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, options.propagate_nan ? "tl.clamp($, $, $, propagate_nan=tl.PropagateNan.ALL)" : "tl.clamp($, $, $)",
                                                  std::vector<detail::Part>{detail::partOf(std::forward<X>(x)), detail::partOf(std::forward<Lo>(lo)), detail::partOf(std::forward<Hi>(hi))});
}
/// x * y + z, rounded once.
template <detail::AnyTile X, detail::Operand Y, detail::Operand Z> auto fma(X &&x, Y &&y, Z &&z, Place at = Place::current()) {
  using R = typename detail::ElementOf<detail::promotedCode<Tile<detail::Promoted<X, Y>>, Z>(false)>::type;
  return detail::call<R>(at, "tl.fma", std::forward<X>(x), std::forward<Y>(y), std::forward<Z>(z));
}
/// The high half of the product of unsigned numbers.
template <detail::Operand X, detail::Operand Y>
  requires(detail::AnyTile<X> || detail::AnyTile<Y>)
auto umulhi(X &&x, Y &&y, Place at = Place::current()) {
  static_assert(detail::isIndex<X> && detail::isIndex<Y>, "umulhi is of whole numbers");
  return detail::call<detail::Promoted<X, Y>>(at, "tl.umulhi", std::forward<X>(x), std::forward<Y>(y));
}
/// x, which is promised to be zero where the mask is true.
template <detail::AnyTile X, detail::BoolTile M> auto expect_zero(X &&x, M &&mask, Place at = Place::current()) {
  return detail::call<detail::ElementOfTile<X>>(at, "tl.expect_zero", std::forward<X>(x), std::forward<M>(mask));
}
/// Where a program that is (i, j) in a grid works, so that neighbours share columns: rows in groups of `group`.
template <detail::Operand I, detail::Operand J, detail::Operand A, detail::Operand B, detail::Operand G>
auto swizzle2d(I &&i, J &&j, A &&size_i, B &&size_j, G &&group, Place at = Place::current()) {
  static_assert(detail::isIndex<I> && detail::isIndex<J> && detail::isIndex<A> && detail::isIndex<B> && detail::isIndex<G>, "swizzle2d is of whole numbers");
  return detail::tilesOf<integer, integer>(at, "tl.swizzle2d($, $, $, $, $)",
                                           std::vector<detail::Part>{detail::partOf(std::forward<I>(i)), detail::partOf(std::forward<J>(j)), detail::partOf(std::forward<A>(size_i)),
                                                                     detail::partOf(std::forward<B>(size_j)), detail::partOf(std::forward<G>(group))});
}

// ---- shapes

template <detail::AnyTile X> auto expand_dims(X &&x, int axis, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.expand_dims($, " + detail::literal(axis) + ")", {detail::partOf(std::forward<X>(x))});
}
template <detail::AnyTile X> auto expand_dims(X &&x, Shape axes, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.expand_dims($, " + detail::list(axes) + ")", {detail::partOf(std::forward<X>(x))});
}
template <detail::AnyTile X> auto broadcast_to(X &&x, Shape shape, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.broadcast_to($, " + detail::list(shape) + ")", {detail::partOf(std::forward<X>(x))});
}
/// Elements keep their order, unless they may be taken in any.
struct OrderOptions {
  bool can_reorder = false;
};
template <detail::AnyTile X> auto reshape(X &&x, Shape shape, OrderOptions options = {}, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.reshape($, " + detail::list(shape) + (options.can_reorder ? ", can_reorder=True)" : ")"), {detail::partOf(std::forward<X>(x))});
}
/// The last two dimensions exchanged, or all in the order given.
template <detail::AnyTile X> auto trans(X &&x, Place at = Place::current()) { return detail::call<detail::ElementOfTile<X>>(at, "tl.trans", std::forward<X>(x)); }
template <detail::AnyTile X> auto trans(X &&x, Shape order, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.trans($, " + detail::list(order) + ")", {detail::partOf(std::forward<X>(x))});
}
template <detail::AnyTile X> auto permute(X &&x, Shape order, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.permute($, " + detail::list(order) + ")", {detail::partOf(std::forward<X>(x))});
}
/// The value of a tile of one element, as a scalar.
template <detail::AnyTile X> auto item(X &&x, Place at = Place::current()) { return detail::call<detail::ElementOfTile<X>>(at, "tl.item", std::forward<X>(x)); }
template <detail::AnyTile X> auto ravel(X &&x, OrderOptions options = {}, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, options.can_reorder ? "tl.ravel($, can_reorder=True)" : "tl.ravel($)", {detail::partOf(std::forward<X>(x))});
}
/// Two tiles of one shape as the halves of a new last dimension, and back.
template <detail::AnyTile A, detail::AnyTile B> auto join(A &&a, B &&b, Place at = Place::current()) {
  static_assert(std::same_as<detail::ElementOfTile<A>, detail::ElementOfTile<B>>, "join takes two tiles of one element type");
  return detail::call<detail::ElementOfTile<A>>(at, "tl.join", std::forward<A>(a), std::forward<B>(b));
}
template <detail::AnyTile A, detail::AnyTile B> auto interleave(A &&a, B &&b, Place at = Place::current()) {
  static_assert(std::same_as<detail::ElementOfTile<A>, detail::ElementOfTile<B>>, "interleave takes two tiles of one element type");
  return detail::call<detail::ElementOfTile<A>>(at, "tl.interleave", std::forward<A>(a), std::forward<B>(b));
}
struct CatOptions {
  bool can_reorder = false;
  int dim = 0;
};
template <detail::AnyTile A, detail::AnyTile B> auto cat(A &&a, B &&b, CatOptions options = {}, Place at = Place::current()) {
  static_assert(std::same_as<detail::ElementOfTile<A>, detail::ElementOfTile<B>>, "cat takes two tiles of one element type");
  std::string format = "tl.cat($, $";
  if (options.can_reorder) format += ", can_reorder=True";
  if (options.dim) format += ", dim=" + detail::literal(options.dim);
  return detail::tileOf<detail::ElementOfTile<A>>(at, format + ")", std::vector<detail::Part>{detail::partOf(std::forward<A>(a)), detail::partOf(std::forward<B>(b))});
}
template <detail::AnyTile X> auto split(X &&x, Place at = Place::current()) {
  using T = detail::ElementOfTile<X>;
  return detail::tilesOf<T, T>(at, "tl.split($)", {detail::partOf(std::forward<X>(x))});
}

/// Without a dimension of extent 1; with a new one; both tiles in their common shape.
template <detail::AnyTile X> auto squeeze(X &&x, int axis, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.squeeze($, " + detail::literal(axis) + ")", {detail::partOf(std::forward<X>(x))});
}
template <detail::AnyTile X> auto unsqueeze(X &&x, int axis, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.unsqueeze($, " + detail::literal(axis) + ")", {detail::partOf(std::forward<X>(x))});
}
template <detail::AnyTile X> auto view(X &&x, Shape shape, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.view($, " + detail::list(shape) + ")", {detail::partOf(std::forward<X>(x))});
}
template <detail::AnyTile A, detail::AnyTile B> auto broadcast(A &&a, B &&b, Place at = Place::current()) {
  return detail::tilesOf<detail::ElementOfTile<A>, detail::ElementOfTile<B>>(at, "tl.broadcast($, $)", std::vector<detail::Part>{detail::partOf(std::forward<A>(a)), detail::partOf(std::forward<B>(b))});
}

// ---- matrices

struct DotOptions {
  const char *input_precision = ""; // of float32: "ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"
  int max_num_imprecise_acc = -1;   // of fp8: products that may be added in less than float32; -1: as the device likes
};
namespace detail {
inline void dotKeywords(std::string &format, const DotOptions &o) {
  keyword(format, "input_precision", o.input_precision);
  if (o.max_num_imprecise_acc >= 0) format += ", max_num_imprecise_acc=" + literal(o.max_num_imprecise_acc);
}
} // namespace detail
/// a @ b; sums of floats are float32, of whole numbers int32.
template <detail::AnyTile A, detail::AnyTile B> auto dot(A &&a, B &&b, DotOptions options = {}, Place at = Place::current()) {
  using R = std::conditional_t<detail::isWhole<detail::ElementOfTile<A>>, int32_t, std::conditional_t<std::same_as<detail::ElementOfTile<A>, double>, double, float>>;
  std::string format = "tl.dot($, $";
  detail::dotKeywords(format, options);
  return detail::tileOf<R>(at, format + ")", std::vector<detail::Part>{detail::partOf(std::forward<A>(a)), detail::partOf(std::forward<B>(b))});
}
/// Sums of another type: dot<half>(a, b).
template <TileElement T, detail::AnyTile A, detail::AnyTile B> Tile<T> dot(A &&a, B &&b, DotOptions options = {}, Place at = Place::current()) {
  std::string format = std::string("tl.dot($, $, out_dtype=") + detail::CodeOf<T>::name;
  detail::dotKeywords(format, options);
  return detail::tileOf<T>(at, format + ")", std::vector<detail::Part>{detail::partOf(std::forward<A>(a)), detail::partOf(std::forward<B>(b))});
}
/// acc + a @ b, added in the type of acc.
template <detail::AnyTile A, detail::AnyTile B, detail::AnyTile C> auto dot(A &&a, B &&b, C &&acc, DotOptions options = {}, Place at = Place::current()) {
  using T = detail::ElementOfTile<C>;
  std::string format = "tl.dot($, $, $";
  // Below float32 the language wants it said.
  if constexpr (std::same_as<T, half>) format += std::string(", out_dtype=") + detail::CodeOf<T>::name;
  detail::dotKeywords(format, options);
  return detail::tileOf<T>(at, format + ")", std::vector<detail::Part>{detail::partOf(std::forward<A>(a)), detail::partOf(std::forward<B>(b)), detail::partOf(std::forward<C>(acc))});
}

struct DotScaledOptions {
  bool fast_math = false, lhs_k_pack = true, rhs_k_pack = true;
};
/// a @ b of microscaled operands: 8-bit words of format "e4m3", "e5m2", "e2m1" (two in a byte), or tiles of "fp16", "bf16", with scales of groups along K (none: all 1).
template <detail::AnyTile A, typename SA, detail::AnyTile B, typename SB, typename C = None>
Tile<float> dot_scaled(A &&a, SA &&a_scale, const char *a_format, B &&b, SB &&b_scale, const char *b_format, C &&acc = {}, DotScaledOptions options = {}, Place at = Place::current()) {
  std::string format = "tl.dot_scaled($, ";
  std::vector<detail::Part> parts{detail::partOf(std::forward<A>(a))};
  auto scale = [&](auto &&s) {
    using S = decltype(s);
    static_assert(detail::AnyTile<S> || detail::isNone<S>, "scales are a tile, or tg::none");
    if constexpr (detail::isNone<S>) format += "None";
    else format += "$", parts.push_back(detail::partOf(std::forward<S>(s)));
  };
  scale(std::forward<SA>(a_scale));
  format += ", " + detail::quoted(a_format) + ", $, ";
  parts.push_back(detail::partOf(std::forward<B>(b)));
  scale(std::forward<SB>(b_scale));
  format += ", " + detail::quoted(b_format);
  detail::keyword(format, parts, "acc", std::forward<C>(acc));
  if (options.fast_math) format += ", fast_math=True";
  if (!options.lhs_k_pack) format += ", lhs_k_pack=False";
  if (!options.rhs_k_pack) format += ", rhs_k_pack=False";
  return detail::tileOf<float>(at, format + ")", std::move(parts));
}

// ---- promises, output

/// Promises: all values of x are multiples of n; n of them follow one another; n of them are equal. A list has a number for each dimension.
#define TEGULA_TILE_PROMISE(name)                                                                                                                    \
  template <detail::Leaf X> auto name(X &&x, int n, Place at = Place::current()) {                                                                   \
    return detail::leafOf<std::remove_cvref_t<X>>(at, "tl." #name "($, " + detail::literal(n) + ")", {detail::partOf(std::forward<X>(x))});           \
  }                                                                                                                                                  \
  template <detail::Leaf X> auto name(X &&x, Shape each, Place at = Place::current()) {                                                              \
    return detail::leafOf<std::remove_cvref_t<X>>(at, "tl." #name "($, " + detail::list(each) + ")", {detail::partOf(std::forward<X>(x))});           \
  }
TEGULA_TILE_PROMISE(multiple_of)
TEGULA_TILE_PROMISE(max_contiguous)
TEGULA_TILE_PROMISE(max_constancy)
#undef TEGULA_TILE_PROMISE
template <detail::BoolTile C> void assume(C &&condition, Place at = Place::current()) { detail::trace().effect(at, "tl.assume($)", {detail::partOf(std::forward<C>(condition))}); }
inline void debug_barrier(Place at = Place::current()) { detail::trace().effect(at, "tl.debug_barrier()", {}); }
/// Where the mask is true, if there is one.
template <detail::BoolTile C, typename M = None> void device_assert(C &&condition, std::string_view message = "", M &&mask = {}, Place at = Place::current()) {
  static_assert(detail::isNone<M> || detail::BoolTile<M>, "a mask is a tile of bool: compare with 0");
  std::string format = "tl.device_assert($, " + detail::quoted(message);
  std::vector<detail::Part> parts{detail::partOf(std::forward<C>(condition))};
  detail::keyword(format, parts, "mask", std::forward<M>(mask));
  detail::trace().effect(at, format + ")", std::move(parts));
}

namespace detail {
/// What is printed in front, and where.
struct Prefix {
  template <std::convertible_to<std::string_view> S> Prefix(const S &s, Place where = Place::current()) : text(s), at(where) {}
  std::string_view text;
  Place at;
};
template <typename... X> void print(std::string_view name, const Prefix &prefix, std::string_view keywords, X &&...x) {
  std::string format = std::string(name) + "(" + quoted(prefix.text);
  for (size_t i = 0; i < sizeof...(X); ++i) format += ", $";
  trace().effect(prefix.at, format + std::string(keywords) + ")", std::vector<Part>{partOf(std::forward<X>(x))...});
}
} // namespace detail
struct PrintOptions {
  bool hex = false;
};
/// While the kernel is compiled: what C++ does not know, such as a tile's shape and type.
template <detail::Operand... X> void static_print(detail::Prefix prefix, X &&...x) { detail::print("tl.static_print", prefix, "", std::forward<X>(x)...); }
/// When it runs: device_print("x", x), device_print("bits", {.hex = true}, x, y).
template <detail::Operand... X> void device_print(detail::Prefix prefix, X &&...x) { detail::print("tl.device_print", prefix, "", std::forward<X>(x)...); }
template <detail::Operand... X> void device_print(detail::Prefix prefix, PrintOptions options, X &&...x) {
  detail::print("tl.device_print", prefix, options.hex ? ", hex=True" : "", std::forward<X>(x)...);
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
