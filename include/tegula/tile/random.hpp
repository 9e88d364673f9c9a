// Random numbers: Philox by a seed and offsets, the same on every device. Included by tegula/tile.hpp.
#pragma once
#include "tegula/tile/functions.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

namespace detail {
inline std::string rounds(std::string format, int n) { return format + (n == 10 ? ")" : ", n_rounds=" + literal(n) + ")"); }
template <typename S, typename O> std::vector<Part> seedAndOffset(S &&seed, O &&offset) {
  static_assert(isIndex<S> && isIndex<O>, "seed and offsets are whole numbers");
  return std::vector<Part>{partOf(std::forward<S>(seed)), partOf(std::forward<O>(offset))};
}
template <typename T> inline constexpr bool isWide = isIntCode(CodeOf<T>::code) && CodeOf<T>::code != integerElement && widthOf(CodeOf<T>::code) == 64;
template <typename C> using WordOf = std::conditional_t<AnyTile<C>, std::conditional_t<isWide<typename ElementOf<codeOf<C>>::type>, uint64_t, uint32_t>, uint32_t>;
} // namespace detail

#define TEGULA_TILE_RANDOM(name, T)                                                                                                                  \
  template <detail::Operand S, detail::Operand O> Tile<T> name(S &&seed, O &&offset, int n_rounds = 10, Place at = Place::current()) {                \
    return detail::tileOf<T>(at, detail::rounds("tl." #name "($, $", n_rounds), detail::seedAndOffset(std::forward<S>(seed), std::forward<O>(offset)));  \
  }
#define TEGULA_TILE_RANDOM4(name, T)                                                                                                                 \
  template <detail::Operand S, detail::Operand O> auto name(S &&seed, O &&offset, int n_rounds = 10, Place at = Place::current()) {                   \
    return detail::tilesOf<T, T, T, T>(at, detail::rounds("tl." #name "($, $", n_rounds), detail::seedAndOffset(std::forward<S>(seed), std::forward<O>(offset))); \
  }
/// Any of the words of 32 bits; in [0, 1); normally distributed.
TEGULA_TILE_RANDOM(randint, uint32_t)
TEGULA_TILE_RANDOM(rand, float)
TEGULA_TILE_RANDOM(randn, float)
/// Four tiles for the work of one.
TEGULA_TILE_RANDOM4(randint4x, uint32_t)
TEGULA_TILE_RANDOM4(rand4x, float)
TEGULA_TILE_RANDOM4(randn4x, float)
#undef TEGULA_TILE_RANDOM
#undef TEGULA_TILE_RANDOM4

/// The words themselves, of counters c0 ... c3 (32 or 64 bits wide, as c0 is) and a seed or the two words of a key.
template <detail::Operand S, detail::AnyTile A, detail::Operand B, detail::Operand C, detail::Operand D>
auto philox(S &&seed, A &&c0, B &&c1, C &&c2, D &&c3, int n_rounds = 10, Place at = Place::current()) {
  using W = detail::WordOf<A>;
  return detail::tilesOf<W, W, W, W>(at, detail::rounds("tl.philox($, $, $, $, $", n_rounds),
                                     std::vector<detail::Part>{detail::partOf(std::forward<S>(seed)), detail::partOf(std::forward<A>(c0)), detail::partOf(std::forward<B>(c1)),
                                                               detail::partOf(std::forward<C>(c2)), detail::partOf(std::forward<D>(c3))});
}
template <detail::AnyTile A, detail::Operand B, detail::Operand C, detail::Operand D, detail::Operand K, detail::Operand L>
auto philox_impl(A &&c0, B &&c1, C &&c2, D &&c3, K &&k0, L &&k1, int n_rounds = 10, Place at = Place::current()) {
  using W = detail::WordOf<A>;
  static_assert(detail::codeOf<A> == TEGULA_UINT32 || detail::codeOf<A> == TEGULA_UINT64, "Philox counters are uint32 or uint64: convert them, x.to<uint32_t>()");
  return detail::tilesOf<W, W, W, W>(at, detail::rounds("tl.philox_impl($, $, $, $, $, $", n_rounds),
                                     std::vector<detail::Part>{detail::partOf(std::forward<A>(c0)), detail::partOf(std::forward<B>(c1)), detail::partOf(std::forward<C>(c2)),
                                                               detail::partOf(std::forward<D>(c3)), detail::partOf(std::forward<K>(k0)), detail::partOf(std::forward<L>(k1))});
}
/// A word as a number in [0, 1); two such numbers as two that are normally distributed.
template <detail::AnyTile X> Tile<float> uint_to_uniform_float(X &&x, Place at = Place::current()) {
  static_assert(detail::isIndex<X>, "uniform numbers are made of words of 32 or 64 bits");
  return detail::call<float>(at, "tl.uint_to_uniform_float", std::forward<X>(x));
}
template <detail::AnyTile U, detail::AnyTile V> auto pair_uniform_to_normal(U &&u1, V &&u2, Place at = Place::current()) {
  static_assert(detail::codeOf<U> == TEGULA_FP32 && detail::codeOf<V> == TEGULA_FP32, "uniform numbers are float");
  return detail::tilesOf<float, float>(at, "tl.pair_uniform_to_normal($, $)", std::vector<detail::Part>{detail::partOf(std::forward<U>(u1)), detail::partOf(std::forward<V>(u2))});
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
