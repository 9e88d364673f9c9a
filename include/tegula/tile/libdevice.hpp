// tl.extra.libdevice: mathematics to the last place, roundings, bits. Included by tegula/tile.hpp.
#pragma once
#include "tegula/tile/functions.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {
namespace libdevice {
namespace detail {

using namespace tile::detail;
template <typename X, typename... Y> struct Joined { using type = std::remove_cvref_t<X>; };
template <typename X, typename Y, typename... Z> struct Joined<X, Y, Z...> : Joined<Tile<Promoted<X, Y>>, Z...> {};
/// The type that the operands are promoted to.
struct Same {
  template <typename... X> using of = typename ElementOf<codeOf<typename Joined<X...>::type>>::type;
};
/// The same, of floats at least float.
struct Real {
  template <typename... X> using of = std::conditional_t<isFloatCode(codeOf<typename Joined<X...>::type>) && widthOf(codeOf<typename Joined<X...>::type>) < 32, float, Same::of<X...>>;
};
/// Whatever the operands are.
template <typename T> struct Always {
  template <typename... X> using of = T;
};

} // namespace detail

#define TEGULA_LIBDEVICE1(name, rule)                                                                                                                \
  template <tile::detail::AnyTile X> auto name(X &&x, Place at = Place::current()) {                                                                  \
    return tile::detail::call<typename detail::rule::template of<X>>(at, "tl.extra.libdevice." #name, std::forward<X>(x));                            \
  }
#define TEGULA_LIBDEVICE2(name, rule)                                                                                                                \
  template <tile::detail::Operand X, tile::detail::Operand Y>                                                                                        \
    requires(tile::detail::AnyTile<X> || tile::detail::AnyTile<Y>)                                                                                   \
  auto name(X &&x, Y &&y, Place at = Place::current()) {                                                                                             \
    return tile::detail::call<typename detail::rule::template of<X, Y>>(at, "tl.extra.libdevice." #name, std::forward<X>(x), std::forward<Y>(y));     \
  }
#define TEGULA_LIBDEVICE3(name, rule)                                                                                                                \
  template <tile::detail::AnyTile X, tile::detail::Operand Y, tile::detail::Operand Z> auto name(X &&x, Y &&y, Z &&z, Place at = Place::current()) {  \
    return tile::detail::call<typename detail::rule::template of<X, Y, Z>>(at, "tl.extra.libdevice." #name, std::forward<X>(x), std::forward<Y>(y), std::forward<Z>(z)); \
  }
#define TEGULA_LIBDEVICE4(name, rule)                                                                                                                \
  template <tile::detail::AnyTile X, tile::detail::Operand Y, tile::detail::Operand Z, tile::detail::Operand W>                                       \
  auto name(X &&x, Y &&y, Z &&z, W &&w, Place at = Place::current()) {                                                                               \
    return tile::detail::call<typename detail::rule::template of<X, Y, Z, W>>(at, "tl.extra.libdevice." #name, std::forward<X>(x), std::forward<Y>(y), std::forward<Z>(z), std::forward<W>(w)); \
  }
#include "tegula/tile/libdevice.inc"
#undef TEGULA_LIBDEVICE1
#undef TEGULA_LIBDEVICE2
#undef TEGULA_LIBDEVICE3
#undef TEGULA_LIBDEVICE4

} // namespace libdevice
} // namespace tile
} // inline namespace v0
} // namespace tegula
