// Functions of scalars for all elements of tiles: C++ lambdas with control flow, and assembly. Included by tegula/tile.hpp.
#pragma once
#include "tegula/tile/functions.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

namespace detail {

/// Of `Pack` results for each tile.
template <size_t Pack, typename R> struct PackedResults;
template <size_t Pack, typename... T> struct PackedResults<Pack, std::tuple<Tile<T>...>> {
  static_assert(sizeof...(T) % Pack == 0, "the function must give `Pack` elements of each result, one after the other");
  static auto made(const Place &at, std::string_view format, std::vector<Part> parts) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      using All = std::tuple<T...>;
      if constexpr (sizeof...(I) == 1) return tileOf<std::tuple_element_t<0, All>>(at, std::string(format) + "[0]", std::move(parts));
      else return tilesOf<std::tuple_element_t<I * Pack, All>...>(at, format, std::move(parts));
    }(std::make_index_sequence<sizeof...(T) / Pack>());
  }
};

/// Calls `f` with Pack elements of each tile: x0, x1, ..., y0, y1, ...
template <size_t, typename T> using Each = T;
template <typename T, size_t... I> auto elementsAt(const std::vector<int> &p, size_t first, std::index_sequence<I...>) { return std::tuple<Each<I, Tile<T>>...>(Tile<T>(p[first + I], trace())...); }
template <size_t Pack, typename F, typename... T, size_t... I> auto callOnElements(F &f, const std::vector<int> &p, std::tuple<T...> *, std::index_sequence<I...>) {
  return std::apply(f, std::tuple_cat(elementsAt<T>(p, Pack * I, std::make_index_sequence<Pack>())...));
}

} // namespace detail

namespace detail {
template <size_t Pack, typename F, AnyTile... X> auto mapped(const Place &at, F &f, X &&...tiles) {
  using Types = std::tuple<ElementOfTile<X>...>;
  constexpr auto each = std::index_sequence_for<X...>();
  using R = decltype(callOnElements<Pack>(f, std::declval<const std::vector<int> &>(), static_cast<Types *>(nullptr), each));
  std::string format = "tl.map_elementwise(" + trace().helper(at, Pack * sizeof...(X), [&](const std::vector<int> &p) { return partsOf(callOnElements<Pack>(f, p, static_cast<Types *>(nullptr), each)); });
  for (size_t i = 0; i < sizeof...(X); ++i) format += ", $";
  format += Pack > 1 ? ", pack=" + literal(Pack) + ")" : ")";
  std::vector<Part> parts{partOf(std::forward<X>(tiles))...};
  if constexpr (Pack == 1) return valueOf<R>(at, format, std::move(parts));
  else return PackedResults<Pack, R>::made(at, format, std::move(parts));
}
} // namespace detail

/// `f` of the elements of the tiles (four at most), one after the other: it may branch and loop (tg::if_, tg::while_), and gives a scalar, or a std::tuple of them for several
/// tiles. With Pack it takes and gives so many elements of each at a time: f(x0, x1, y0, y1).
///   map_elementwise([](tg::Float x) { tg::Float y = x; tg::if_(x > 1, [&] { y = 1.0; }); return y; }, x)
template <size_t Pack = 1, typename F, detail::AnyTile X> auto map_elementwise(F f, X &&x, Place at = Place::current()) { return detail::mapped<Pack>(at, f, std::forward<X>(x)); }
template <size_t Pack = 1, typename F, detail::AnyTile X, detail::AnyTile Y> auto map_elementwise(F f, X &&x, Y &&y, Place at = Place::current()) {
  return detail::mapped<Pack>(at, f, std::forward<X>(x), std::forward<Y>(y));
}
template <size_t Pack = 1, typename F, detail::AnyTile X, detail::AnyTile Y, detail::AnyTile Z> auto map_elementwise(F f, X &&x, Y &&y, Z &&z, Place at = Place::current()) {
  return detail::mapped<Pack>(at, f, std::forward<X>(x), std::forward<Y>(y), std::forward<Z>(z));
}
template <size_t Pack = 1, typename F, detail::AnyTile X, detail::AnyTile Y, detail::AnyTile Z, detail::AnyTile W>
auto map_elementwise(F f, X &&x, Y &&y, Z &&z, W &&w, Place at = Place::current()) {
  return detail::mapped<Pack>(at, f, std::forward<X>(x), std::forward<Y>(y), std::forward<Z>(z), std::forward<W>(w));
}

struct AssemblyOptions {
  bool is_pure = true;
  int pack = 1;
};
/// A statement of assembly (PTX; on CPUs also their own) with `$0` ... for its operands, on the elements of tiles, `pack` of them a time. Gives a tile of R, or a std::tuple of
/// several.
///   inline_asm_elementwise<float>("ex2.approx.f32 $0, $1;", "=f,f", std::tuple(x))
template <typename... R, typename... T>
auto inline_asm_elementwise(std::string_view assembly, std::string_view constraints, std::tuple<Tile<T>...> operands, AssemblyOptions options = {}, Place at = Place::current()) {
  static_assert(sizeof...(R) > 0, "say what it gives: inline_asm_elementwise<float>(...)");
  std::string types, format = "tl.inline_asm_elementwise(" + detail::quoted(assembly) + ", " + detail::quoted(constraints) + ", [";
  ((types += (types.empty() ? "" : ", ") + std::string(detail::CodeOf<R>::name)), ...);
  for (size_t i = 0; i < sizeof...(T); ++i) format += i ? ", $" : "$";
  format += "], " + (sizeof...(R) > 1 ? "(" + types + ")" : types) + ", " + detail::literal(options.is_pure) + ", " + detail::literal(options.pack) + ")";
  std::vector<detail::Part> parts;
  if constexpr (sizeof...(T) > 0) parts = detail::partsOf(std::move(operands));
  if constexpr (sizeof...(R) > 1) return detail::tilesOf<R...>(at, format, std::move(parts));
  else return detail::tileOf<R...>(at, format, std::move(parts));
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
