// Structs of tiles. Included by tegula/tile.hpp.
//
// A struct whose members are tiles, addresses, or such structs again is a value of the kernel, as are std::tuple, std::pair and std::array of them: loops carry it, if_ assigns it,
// helpers take and return it, reduce and associative_scan combine it, tg::function and tg::python give it.
//
//   struct Moments { tg::Tile<float> mean, m2, count; };
//   Moments all = tg::reduce(Moments{x, tg::zeros_like(x), ones}, 0, [](const Moments &a, const Moments &b) { ... return Moments{mean, m2, count}; });
//
// It is an aggregate (no constructors, no private members, no bases) of at most 16 members.
#pragma once
#include "tegula/tile/values.hpp"
#include <array>
#include <tuple>

namespace tegula {
inline namespace v0 {
namespace tile {
namespace detail {

/// One variable of the kernel: a tile, addresses, a descriptor.
template <typename V>
concept Leaf = std::derived_from<std::remove_cvref_t<V>, Variable>;
template <typename V>
concept TupleLike = requires { std::tuple_size<std::remove_cvref_t<V>>::value; };
/// A struct of a user's, whatever its members.
template <typename V>
concept Struct = !TupleLike<V> && !Leaf<V> && std::is_class_v<std::remove_cvref_t<V>> && std::is_aggregate_v<std::remove_cvref_t<V>>;

/// Stands for a member of any type, where only their number matters.
template <typename S> struct AnyMember {
  template <typename T>
    requires(!std::same_as<std::remove_cvref_t<T>, S>)
  operator T() const;
};
template <typename S, size_t... I> constexpr bool takes(std::index_sequence<I...>) {
  return requires { S{((void)I, AnyMember<S>())...}; };
}
inline constexpr size_t mostMembers = 16;
template <typename S, size_t N = mostMembers + 1> constexpr size_t memberCount() {
  if constexpr (N == 0) return 0;
  else if constexpr (takes<S>(std::make_index_sequence<N>())) return N;
  else return memberCount<S, N - 1>();
}

/// References to the members of a struct, or the elements of a tuple, in order.
template <typename S> auto membersOf(S &s) {
  if constexpr (TupleLike<S>) {
    return std::apply([](auto &...m) { return std::tie(m...); }, s);
  } else {
    constexpr size_t n = memberCount<std::remove_const_t<S>>();
    static_assert(n > 0, "a struct of tiles has a member");
    static_assert(n <= mostMembers, "a struct of tiles has at most 16 members: put some of them into a struct");
#define TEGULA_TILE_MEMBERS(count, ...)                                                                                                              \
  if constexpr (n == count) {                                                                                                                        \
    auto &[__VA_ARGS__] = s;                                                                                                                         \
    return std::tie(__VA_ARGS__);                                                                                                                    \
  }
    // clang-format off
    TEGULA_TILE_MEMBERS(1, a)
    TEGULA_TILE_MEMBERS(2, a, b)
    TEGULA_TILE_MEMBERS(3, a, b, c)
    TEGULA_TILE_MEMBERS(4, a, b, c, d)
    TEGULA_TILE_MEMBERS(5, a, b, c, d, e)
    TEGULA_TILE_MEMBERS(6, a, b, c, d, e, f)
    TEGULA_TILE_MEMBERS(7, a, b, c, d, e, f, g)
    TEGULA_TILE_MEMBERS(8, a, b, c, d, e, f, g, h)
    TEGULA_TILE_MEMBERS(9, a, b, c, d, e, f, g, h, i)
    TEGULA_TILE_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
    TEGULA_TILE_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
    TEGULA_TILE_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
    TEGULA_TILE_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
    TEGULA_TILE_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
    TEGULA_TILE_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
    TEGULA_TILE_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
    // clang-format on
#undef TEGULA_TILE_MEMBERS
  }
}

/// The variables that a value is made of, as a std::tuple of their types.
template <typename V> struct LeavesOf {
  static_assert(sizeof(V) == 0, "a member of a struct of tiles is a tg::Tile<T>, a tg::Ptr<T>, a tg::Desc<T>, or a struct or std::tuple of them");
};
template <typename V> using Leaves = typename LeavesOf<std::remove_cvref_t<V>>::type;
template <Leaf V> struct LeavesOf<V> { using type = std::tuple<V>; };
template <typename V>
  requires(TupleLike<V> || Struct<V>)
struct LeavesOf<V> {
  template <typename... M> static auto all(std::tuple<M &...> *) -> decltype(std::tuple_cat(std::declval<Leaves<M>>()...));
  using type = decltype(all(static_cast<decltype(membersOf(std::declval<V &>())) *>(nullptr)));
};
template <typename V> inline constexpr size_t leafCount = std::tuple_size_v<Leaves<V>>;

template <typename V> struct AllTiles : std::false_type {};
template <typename... T> struct AllTiles<std::tuple<Tile<T>...>> : std::true_type {};

/// Several tiles as one value.
template <typename V>
concept Bundle = (TupleLike<V> || Struct<V>) && !Number<V>;

/// As operands of an operation, which gets what is a temporary.
template <typename V> void addParts(std::vector<Part> &parts, V &&v) {
  if constexpr (Leaf<V>) {
    parts.push_back(partOf(std::forward<V>(v)));
  } else {
    auto add = [&]<typename M>(M &m) {
      if constexpr (std::is_rvalue_reference_v<V &&>) addParts(parts, std::move(m));
      else addParts(parts, m);
    };
    std::apply([&](auto &...m) { (add(m), ...); }, membersOf(v));
  }
}
template <typename V> std::vector<Part> partsOf(V &&v) {
  std::vector<Part> parts;
  addParts(parts, std::forward<V>(v));
  return parts;
}

/// A value of type V of what `leaf` gives for the type of each of its variables, in order.
template <typename V, typename F> V makeOf(F &leaf) {
  if constexpr (Leaf<V>) {
    return leaf(static_cast<V *>(nullptr));
  } else {
    auto all = [&]<typename... M>(std::tuple<M &...> *) { return V{makeOf<std::remove_cvref_t<M>>(leaf)...}; }; // braces: from left to right
    return all(static_cast<decltype(membersOf(std::declval<V &>())) *>(nullptr));
  }
}
/// Of variables that are there, from number `next` on.
template <typename V> V fromVariables(const std::vector<int> &variables, size_t next) {
  auto leaf = [&]<typename L>(L *) { return L(variables[next++], trace()); };
  return makeOf<V>(leaf);
}
template <typename L> L leafOf(const Place &at, std::string_view format, std::vector<Part> parts) {
  if constexpr (AnyTile<L>) return tileOf<typename L::element>(at, format, std::move(parts));
  else return L(trace().make(at, format, std::move(parts)), trace());
}
/// Of an operation that gives a tuple of the variables, or the only one.
template <typename V> V valueOf(const Place &at, std::string_view format, std::vector<Part> parts) {
  if constexpr (leafCount<V> == 1) {
    auto leaf = [&]<typename L>(L *) { return leafOf<L>(at, format, std::move(parts)); };
    return makeOf<V>(leaf);
  } else {
    int all = trace().make(at, format, std::move(parts)), next = 0;
    auto leaf = [&]<typename L>(L *) { return leafOf<L>(at, "$[" + literal(next++) + "]", {{{}, all, false}}); };
    return makeOf<V>(leaf);
  }
}

} // namespace detail
} // namespace tile
} // inline namespace v0
} // namespace tegula
