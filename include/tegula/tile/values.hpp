// Tiles, pointers and their operators. Included by tegula/tile.hpp.
#pragma once
#include "tegula/host/status.hpp"
#include "tegula/tile/elements.hpp"
#include "tegula/tile/trace.hpp"
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#ifdef __cpp_exceptions
#include <stdexcept>
#endif

namespace tegula {
inline namespace v0 {
namespace tile {

using Place = std::source_location;

template <typename T> class Tile;
template <typename T> class Ptr;
template <typename T> class BlockPtr;

/// A parameter that the kernel is compiled for: an ordinary value of C++, so `if (BLOCK > 64)` and `for (int i = 0; i < BLOCK; ++i)` are decided while
/// the kernel is written down.
template <typename T> class Constexpr {
public:
  constexpr Constexpr(T v) : value(v) {}
  constexpr operator T() const { return value; }
  T value;
};

namespace detail {

template <typename T> inline constexpr bool isTile = false;
template <typename T> inline constexpr bool isTile<Tile<T>> = true;
template <typename T> inline constexpr bool isPtr = false;
template <typename T> inline constexpr bool isPtr<Ptr<T>> = true;
template <typename T> inline constexpr bool isBlockPtr = false;
template <typename T> inline constexpr bool isBlockPtr<BlockPtr<T>> = true;
template <typename T> inline constexpr bool isConstexpr = false;
template <typename T> inline constexpr bool isConstexpr<Constexpr<T>> = true;

template <typename U>
concept AnyTile = isTile<std::remove_cvref_t<U>>;
template <typename U>
concept AnyPtr = isPtr<std::remove_cvref_t<U>>;
/// A number of C++, or a parameter that is one.
template <typename U>
concept Number = std::is_arithmetic_v<std::remove_cvref_t<U>> || isConstexpr<std::remove_cvref_t<U>>;
template <typename U>
concept Operand = AnyTile<U> || Number<U>;

template <typename T> struct NumberOf { using type = T; };
template <typename T> struct NumberOf<Constexpr<T>> { using type = T; };
/// What the language takes a number for: its value may decide, and then it is some integer.
template <typename U> constexpr int numberCode() {
  using N = typename NumberOf<std::remove_cvref_t<U>>::type;
  if constexpr (std::same_as<N, bool>) return TEGULA_INT1;
  else if constexpr (std::floating_point<N>) return TEGULA_FP32;
  else return sizeof(N) < 4 || std::same_as<N, int32_t> ? static_cast<int>(TEGULA_INT32) : integerElement;
}
template <typename U> struct ElementCode { static constexpr int code = numberCode<U>(); };
template <typename T> struct ElementCode<Tile<T>> { static constexpr int code = CodeOf<T>::code; };
/// Of an operand.
template <typename U> inline constexpr int codeOf = ElementCode<std::remove_cvref_t<U>>::code;

template <typename A, typename B> constexpr int promotedCode(bool isDivision) {
  if constexpr (AnyTile<A> && AnyTile<B>) return promote(codeOf<A>, codeOf<B>, isDivision);
  else if constexpr (AnyTile<A>) return promoteWithNumber(codeOf<A>, codeOf<B>, isDivision);
  else if constexpr (AnyTile<B>) return promoteWithNumber(codeOf<B>, codeOf<A>, isDivision);
  else return promote(codeOf<A>, codeOf<B>, isDivision);
}
/// The element type of what two operands give; void: they have none.
template <typename A, typename B, bool isDivision = false> using Promoted = typename ElementOf<promotedCode<A, B>(isDivision)>::type;

/// The kernel that is being written down. Tiles exist while a kernel is called by the library, and nowhere else.
inline Trace &trace() {
  if (Trace *t = Trace::current()) return *t;
#ifdef __cpp_exceptions
  throw std::logic_error("an operation on tiles outside of a kernel");
#else
  std::fputs("tegula: an operation on tiles outside of a kernel\n", stderr);
  std::abort();
#endif
}

/// What Tile and Ptr have in common: a variable of the kernel. A copy is another variable, as it is for every C++ value.
class Variable {
public:
  Variable(const Variable &other) { if (other.id_ >= 0) *this = other; }
  Variable(Variable &&other) { take(std::move(other)); }
  Variable &operator=(const Variable &other) {
    if (this != &other) trace().assign(id_, other.part(false));
    return *this;
  }
  Variable &operator=(Variable &&other) {
    if (this != &other) trace().assign(id_, other.part(true));
    return *this;
  }
  Part part() const & { return part(false); }
  Part part() && { return part(true); }

protected:
  Variable() = default;
  explicit Variable(int id) : id_(id) {}
  int id_ = -1;

private:
  Part part(bool temporary) const {
    if (id_ >= 0) return {{}, id_, temporary};
    return {"0", -1, false, true};
  }
  void take(Variable &&other) {
    if (trace().canMove(other.id_)) id_ = std::exchange(other.id_, -1);
    else if (other.id_ >= 0) *this = static_cast<const Variable &>(other);
  }
};

template <typename U> Part partOf(U &&u) {
  using V = std::remove_cvref_t<U>;
  if constexpr (std::derived_from<V, Variable>) return std::forward<U>(u).part();
  else if constexpr (isConstexpr<V>) return {literal(u.value), -1, false};
  else if constexpr (std::same_as<V, float>) return {literal(static_cast<double>(u)), -1, false};
  else return {literal(u), -1, false};
}

/// An operand with the place where it is written: operators of C++ can have no parameter for that.
template <typename V> struct Here {
  Here(const V &v, Place where = Place::current()) : part(v.part()), at(where) {}
  Here(V &&v, Place where = Place::current()) : part(std::move(v).part()), at(where) {}
  Part part;
  Place at;
};

/// What stands to the right of `+=`.
template <typename V, bool isDivision> struct Assigned {
  template <Operand U> Assigned(U &&u, Place where = Place::current()) : part(partOf(std::forward<U>(u))), at(where) {
    static_assert(std::same_as<Promoted<V, U, isDivision>, typename V::element>, "a tile keeps its element type: convert the operand first, x.to<T>()");
  }
  Part part;
  Place at;
};
/// A whole number or a tile of them.
struct Offset {
  template <Operand U> Offset(U &&u, Place where = Place::current()) : part(partOf(std::forward<U>(u))), at(where) {
    static_assert(isIntCode(codeOf<U>), "an offset is a whole number");
  }
  Part part;
  Place at;
};
struct AnyNumber {
  template <Number N> AnyNumber(N n) : part(partOf(n)) {}
  Part part;
};

/// A new tile of T: `format` with the parts in place of `$`.
template <typename T> Tile<T> tileOf(const Place &at, std::string_view format, std::vector<Part> parts);
template <typename T> Ptr<T> ptrOf(const Place &at, std::string_view format, std::vector<Part> parts);

template <typename T> inline constexpr bool isWhole = isIntCode(CodeOf<T>::code);
template <typename T> inline constexpr bool isReal = isFloatCode(CodeOf<T>::code);
template <typename U, typename T>
concept TakenFor = !std::same_as<U, T> && (CodeOf<U>::code == CodeOf<T>::code || (std::same_as<T, integer> && isWhole<U>));
/// As the language writes it.
template <typename T> std::string pointerType() {
  return std::string("tl.pointer_type(") + CodeOf<std::remove_const_t<T>>::name + (std::is_const_v<T> ? ", const=True)" : ")");
}
/// Has U the integers that an index can be of?
template <typename U> inline constexpr bool isIndex = isIntCode(codeOf<U>);

} // namespace detail

/// The extents of a tile: ordinary numbers, known while the kernel is compiled.
using Shape = std::initializer_list<int>;
/// Stands for an operand that is not there: load(p, none, 0).
struct None {};
inline constexpr None none;
/// Conversions to narrower floats round to nearest even ("rtne"), or towards zero ("rtz").
struct CastOptions {
  const char *fp_downcast_rounding = "";
};

#define TEGULA_TILE_OPERATOR(op, Check)                                                                                                              \
  template <detail::Operand U> friend auto operator op(detail::Here<Tile> a, U &&b) {                                                                \
    return detail::Check<Tile, U>::make(#op, a.at, std::move(a.part), detail::partOf(std::forward<U>(b)));                                            \
  }                                                                                                                                                  \
  template <detail::Number U> friend auto operator op(U a, detail::Here<Tile> b) {                                                                   \
    return detail::Check<U, Tile>::make(#op, b.at, detail::partOf(a), std::move(b.part));                                                            \
  }
// C++ reads a == b also as b == a, so both sides convert alike here.
#define TEGULA_TILE_EQUALITY(op)                                                                                                                     \
  friend Tile<bool> operator op(detail::Here<Tile> a, detail::Here<Tile> b) { return detail::compare<bool>(#op, a.at, std::move(a.part), std::move(b.part)); }    \
  friend Tile<bool> operator op(detail::Here<Tile> a, detail::AnyNumber b) { return detail::compare<bool>(#op, a.at, std::move(a.part), std::move(b.part)); }     \
  friend Tile<bool> operator op(detail::AnyNumber a, detail::Here<Tile> b) { return detail::compare<bool>(#op, b.at, std::move(a.part), std::move(b.part)); }     \
  template <typename V>                                                                                                                              \
    requires(!std::same_as<T, V>)                                                                                                                    \
  friend Tile<bool> operator op(const Tile &a, const Tile<V> &b) {                                                                                   \
    return detail::Comparison<Tile, Tile<V>>::make(#op, detail::trace().place(), a.part(), b.part());                                                \
  }
#define TEGULA_TILE_ASSIGNMENT(op, isDivision)                                                                                                       \
  Tile &operator op##=(detail::Assigned<Tile, isDivision> b) {                                                                                       \
    bool whole = detail::isWhole<T> && #op[0] == '/';                                                                                                \
    return *this = detail::tileOf<T>(b.at, whole ? "($ // $)" : "($ " #op " $)", {part(), std::move(b.part)});                                       \
  }

namespace detail {

template <typename A, typename B> struct Arithmetic {
  using R = Promoted<A, B>;
  static_assert(!std::is_void_v<R>, "these element types have no common type: convert one of the operands, x.to<T>()");
  static auto make(const char *op, const Place &at, Part a, Part b) { return tileOf<R>(at, "($ " + std::string(op) + " $)", {std::move(a), std::move(b)}); }
};
/// `/` and `%` with C++'s meaning: whole numbers give whole numbers, rounded towards zero.
template <typename A, typename B> struct Division {
  using R = Promoted<A, B, true>;
  static_assert(!std::is_void_v<R>, "a signed integer divided by an unsigned one has no type: convert one of them, x.to<T>()");
  static auto make(const char *op, const Place &at, Part a, Part b) {
    std::string spelled = isWhole<R> && op[0] == '/' ? "//" : op;
    return tileOf<R>(at, "($ " + spelled + " $)", {std::move(a), std::move(b)});
  }
};
template <typename A, typename B> struct Bits {
  static_assert(isIntCode(codeOf<A>) && isIntCode(codeOf<B>), "bits are of whole numbers: convert floats first, x.to<int>(), or x.bitcast<int>()");
  using R = Promoted<A, B>;
  static auto make(const char *op, const Place &at, Part a, Part b) { return tileOf<R>(at, "($ " + std::string(op) + " $)", {std::move(a), std::move(b)}); }
};
template <typename B> Tile<B> compare(const char *op, const Place &at, Part a, Part b) { return tileOf<B>(at, "($ " + std::string(op) + " $)", {std::move(a), std::move(b)}); }
template <typename A, typename B> struct Comparison {
  static_assert(!std::is_void_v<Promoted<A, B>>, "these element types have no common type: convert one of the operands, x.to<T>()");
  static auto make(const char *op, const Place &at, Part a, Part b) { return compare<std::conditional_t<std::is_void_v<A>, void, bool>>(op, at, std::move(a), std::move(b)); }
};

} // namespace detail

/// Elements of type T in the shape that their making gave them; a scalar of the kernel is a tile of no dimensions. Its type and shape stay.
template <typename T> class Tile : public detail::Variable {
  static_assert(TileElement<T>, "no element type of tiles: bool, int8_t ... uint64_t, half, bf16, float, double, fp8e5, fp8e4nv ...");

public:
  using element = T;
  /// A variable that is assigned later, in each arm of an if_ for instance.
  Tile() = default;
  /// A number, as it is written in C++.
  template <detail::Number N> Tile(N n, Place at = Place::current()) : Variable(number(n, at)) {}
  /// Some integer from one of a known width, and the same elements by another name of C++ (long long, _Float16, std::byte).
  template <detail::TakenFor<T> U> Tile(const Tile<U> &other) : Variable(static_cast<const Variable &>(other)) {}
  template <detail::TakenFor<T> U> Tile(Tile<U> &&other) : Variable(static_cast<Variable &&>(other)) {}
  template <typename U>
    requires(!std::same_as<T, U> && !detail::TakenFor<U, T>)
  Tile(const Tile<U> &) TEGULA_DELETED("a tile keeps its element type: convert it first, x.to<T>()");
  explicit Tile(int variable, detail::Trace &) : Variable(variable) {}

  /// Converted, as static_cast does.
  template <TileElement U> Tile<U> to(CastOptions options = {}, Place at = Place::current()) const & { return cast<U>(at, part(), options); }
  template <TileElement U> Tile<U> to(CastOptions options = {}, Place at = Place::current()) && { return cast<U>(at, std::move(*this).part(), options); }
  /// Addresses as whole numbers, as those of elements: x.to<tg::Ptr<float>>().
  template <typename P>
    requires detail::isPtr<P>
  P to(Place at = Place::current()) const {
    static_assert(detail::isWhole<T>, "an address is made of a whole number");
    return detail::ptrOf<typename P::element>(at, "$.to(" + detail::pointerType<typename P::element>() + ")", {part()});
  }
  /// The same bits as elements of another type of the same width.
  template <TileElement U> Tile<U> bitcast(Place at = Place::current()) const & { return sameBits<U>(at, part()); }
  template <TileElement U> Tile<U> bitcast(Place at = Place::current()) && { return sameBits<U>(at, std::move(*this).part()); }
  /// A vector as a column, a matrix of one column: x[:, None].
  Tile column(Place at = Place::current()) const & { return detail::tileOf<T>(at, "$[:, None]", {part()}); }
  Tile column(Place at = Place::current()) && { return detail::tileOf<T>(at, "$[:, None]", {std::move(*this).part()}); }
  /// A vector as a row, a matrix of one row: x[None, :].
  Tile row(Place at = Place::current()) const & { return detail::tileOf<T>(at, "$[None, :]", {part()}); }
  Tile row(Place at = Place::current()) && { return detail::tileOf<T>(at, "$[None, :]", {std::move(*this).part()}); }

  TEGULA_TILE_OPERATOR(+, Arithmetic)
  TEGULA_TILE_OPERATOR(-, Arithmetic)
  TEGULA_TILE_OPERATOR(*, Arithmetic)
  TEGULA_TILE_OPERATOR(/, Division)
  TEGULA_TILE_OPERATOR(%, Division)
  TEGULA_TILE_OPERATOR(&, Bits)
  TEGULA_TILE_OPERATOR(|, Bits)
  TEGULA_TILE_OPERATOR(^, Bits)
  TEGULA_TILE_OPERATOR(<<, Bits)
  TEGULA_TILE_OPERATOR(>>, Bits)
  TEGULA_TILE_OPERATOR(<, Comparison)
  TEGULA_TILE_OPERATOR(<=, Comparison)
  TEGULA_TILE_OPERATOR(>, Comparison)
  TEGULA_TILE_OPERATOR(>=, Comparison)
  TEGULA_TILE_EQUALITY(==)
  TEGULA_TILE_EQUALITY(!=)
  TEGULA_TILE_ASSIGNMENT(+, false)
  TEGULA_TILE_ASSIGNMENT(-, false)
  TEGULA_TILE_ASSIGNMENT(*, false)
  TEGULA_TILE_ASSIGNMENT(/, true)
  TEGULA_TILE_ASSIGNMENT(%, true)
  TEGULA_TILE_ASSIGNMENT(&, false)
  TEGULA_TILE_ASSIGNMENT(|, false)
  TEGULA_TILE_ASSIGNMENT(^, false)
  TEGULA_TILE_ASSIGNMENT(<<, false)
  TEGULA_TILE_ASSIGNMENT(>>, false)
  friend Tile operator-(detail::Here<Tile> x) { return detail::tileOf<T>(x.at, "(-$)", {std::move(x.part)}); }
  friend Tile operator~(detail::Here<Tile> x) {
    static_assert(detail::isWhole<T>, "bits are of whole numbers: convert floats first, x.to<int>(), or x.bitcast<int>()");
    return detail::tileOf<T>(x.at, "(~$)", {std::move(x.part)});
  }
  friend Tile operator!(detail::Here<Tile> x) {
    static_assert(std::same_as<T, bool>, "! is of tiles of bool: compare with 0");
    return detail::tileOf<T>(x.at, "(~$)", {std::move(x.part)});
  }
  template <detail::Operand U> friend Tile operator&&(const Tile &, const U &) TEGULA_DELETED("both operands are computed anyway: write & between tiles of bool");
  template <detail::Operand U> friend Tile operator||(const Tile &, const U &) TEGULA_DELETED("both operands are computed anyway: write | between tiles of bool");
  explicit operator bool() const TEGULA_DELETED("what a tile holds is known when the kernel runs: use tg::if_, tg::while_ or tg::where");

private:
  template <typename U> static Tile<U> cast(const Place &at, detail::Part p, CastOptions options) {
    std::string format = std::string("$.to(") + detail::CodeOf<U>::name;
    if (*options.fp_downcast_rounding) format += ", fp_downcast_rounding=" + detail::quoted(options.fp_downcast_rounding);
    return detail::tileOf<U>(at, format + ")", {std::move(p)});
  }
  template <typename U> static Tile<U> sameBits(const Place &at, detail::Part p) {
    constexpr int a = detail::CodeOf<T>::code, b = detail::CodeOf<U>::code;
    static_assert(a != detail::integerElement && b != detail::integerElement && detail::widthOf(a) == detail::widthOf(b), "bitcast: the types must have the same width");
    return detail::tileOf<U>(at, std::string("$.to(") + detail::CodeOf<U>::name + ", bitcast=True)", {std::move(p)});
  }
  template <typename N> static int number(N n, const Place &at) {
    constexpr int own = detail::numberCode<N>(), code = detail::CodeOf<T>::code;
    static_assert(!detail::isFloatCode(own) || detail::isFloatCode(code), "a real number for a tile of whole ones: convert it first");
    detail::Part p = detail::partOf(n);
    if constexpr (own == code || std::same_as<T, integer>) return detail::trace().make(at, "$", {p});
    else return detail::trace().make(at, std::string("tl.full([], $, ") + detail::CodeOf<T>::name + ")", {p});
  }
};
#undef TEGULA_TILE_OPERATOR
#undef TEGULA_TILE_EQUALITY
#undef TEGULA_TILE_ASSIGNMENT

/// Addresses of elements of type T, one or a tile of them. A kernel does not write through a Ptr<const T>.
template <typename T> class Ptr : public detail::Variable {
  static_assert(TileElement<std::remove_const_t<T>>, "no element type of tiles: bool, int8_t ... uint64_t, half, bf16, float, double, fp8e5, fp8e4nv ...");

public:
  using element = T;
  Ptr() = default;
  explicit Ptr(int variable, detail::Trace &) : Variable(variable) {}
  /// To read through is to promise less than to write.
  template <typename U>
    requires std::same_as<const U, T>
  Ptr(const Ptr<U> &other) : Variable(static_cast<const Variable &>(other)) {}
  Ptr column(Place at = Place::current()) const { return detail::ptrOf<T>(at, "$[:, None]", {part()}); }
  Ptr row(Place at = Place::current()) const { return detail::ptrOf<T>(at, "$[None, :]", {part()}); }

  template <detail::Operand U> friend Ptr operator+(detail::Here<Ptr> p, U &&offset) {
    static_assert(detail::isIndex<U>, "an offset is a whole number");
    return detail::ptrOf<T>(p.at, "($ + $)", {std::move(p.part), detail::partOf(std::forward<U>(offset))});
  }
  template <detail::Operand U> friend Ptr operator+(U &&offset, detail::Here<Ptr> p) {
    static_assert(detail::isIndex<U>, "an offset is a whole number");
    return detail::ptrOf<T>(p.at, "($ + $)", {detail::partOf(std::forward<U>(offset)), std::move(p.part)});
  }
  template <detail::Operand U> friend Ptr operator-(detail::Here<Ptr> p, U &&offset) {
    static_assert(detail::isIndex<U>, "an offset is a whole number");
    return detail::ptrOf<T>(p.at, "($ - $)", {std::move(p.part), detail::partOf(std::forward<U>(offset))});
  }
  Ptr &operator+=(detail::Offset offset) { return *this = detail::ptrOf<T>(offset.at, "($ + $)", {part(), std::move(offset.part)}); }
  Ptr &operator-=(detail::Offset offset) { return *this = detail::ptrOf<T>(offset.at, "($ - $)", {part(), std::move(offset.part)}); }
  friend void operator==(const Ptr &, const Ptr &) TEGULA_DELETED("the language compares no addresses: compare p.to<int64_t>()");
  friend void operator<=>(const Ptr &, const Ptr &) TEGULA_DELETED("the language compares no addresses: compare p.to<int64_t>()");
  /// As whole numbers: p.to<int64_t>(); as addresses of other elements: p.to<tg::Ptr<int>>().
  template <typename U> auto to(Place at = Place::current()) const {
    if constexpr (detail::isPtr<U>) {
      static_assert(!std::is_const_v<T> || std::is_const_v<typename U::element>, "what a kernel must not write to stays so");
      return detail::ptrOf<typename U::element>(at, "$.to(" + detail::pointerType<typename U::element>() + ")", {part()});
    } else {
      static_assert(std::same_as<U, int64_t> || std::same_as<U, uint64_t>, "an address is a whole number of 64 bits");
      return detail::tileOf<U>(at, std::string("$.to(") + detail::CodeOf<U>::name + ")", {part()});
    }
  }
  explicit operator bool() const TEGULA_DELETED("a pointer is no condition: compare it");
};

using Int = Tile<integer>;
using Float = Tile<float>;
using Bool = Tile<bool>;

namespace detail {
template <typename T> Tile<T> tileOf(const Place &at, std::string_view format, std::vector<Part> parts) {
  Trace &t = trace();
  int variable = t.make(at, format, std::move(parts));
  if (t.checkTypes) t.check(at, variable, std::same_as<T, integer> ? "$.dtype.is_int()" : std::string("$.dtype == ") + CodeOf<T>::name);
  return Tile<T>(variable, t);
}
template <typename T> Ptr<T> ptrOf(const Place &at, std::string_view format, std::vector<Part> parts) { return Ptr<T>(trace().make(at, format, std::move(parts)), trace()); }
} // namespace detail

} // namespace tile
} // inline namespace v0
} // namespace tegula
