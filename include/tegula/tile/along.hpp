// Functions along an axis: reductions, scans, sorting, gathering. Included by tegula/tile.hpp.
#pragma once
#include "tegula/tile/functions.hpp"
#include "tegula/tile/structs.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

struct ReduceOptions {
  bool keep_dims = false;
};
/// Of equal elements the first one is found, unless it may be any of them.
struct ArgOptions {
  bool keep_dims = false, tie_break_left = true;
};

namespace detail {

/// Sums of narrow integers count in 32 bits; extrema of anything narrow are found in 32.
template <typename T> struct SumOf {
  static constexpr int code = CodeOf<T>::code;
  static constexpr bool narrow = isWhole<T> && code != integerElement && widthOf(code) < 32;
  using type = std::conditional_t<narrow, std::conditional_t<isSignedCode(code), int32_t, uint32_t>, T>;
};
template <typename T> struct ExtremumOf {
  static constexpr int code = CodeOf<T>::code;
  static constexpr bool narrow = code != integerElement && widthOf(code) < 32;
  using type = std::conditional_t<narrow, std::conditional_t<isReal<T>, float, int32_t>, T>;
};
inline std::string reduceKeywords(ReduceOptions options) { return options.keep_dims ? ", keep_dims=True" : ""; }
/// Of an axis, or of all elements.
template <typename R, typename X> Tile<R> alongAxis(const Place &at, std::string_view name, X &&x, const std::string &axis, const std::string &keywords) {
  return tileOf<R>(at, std::string(name) + "($" + axis + keywords + ")", {partOf(std::forward<X>(x))});
}
inline std::string axisText(int axis) { return ", " + literal(axis); }
template <typename T> std::string dtypeKeyword() {
  static_assert(!std::same_as<T, integer>, "say the width: sum<int64_t>");
  return std::string(", dtype=") + CodeOf<T>::name;
}

/// Are the elements of S given to F one by one, all left ones first? Else as two values of type S.
template <typename S, typename F, typename... T> constexpr bool takesLeaves(std::tuple<Tile<T>...> *) {
  if constexpr (Struct<S>) return !std::invocable<F &, S, S> && std::invocable<F &, Tile<T>..., Tile<T>...>;
  else return std::invocable<F &, Tile<T>..., Tile<T>...>;
}
template <typename F, typename... T, size_t... I> auto callOnLeaves(F &f, const std::vector<int> &p, std::tuple<Tile<T>...> *, std::index_sequence<I...>) {
  return f(Tile<T>(p[I], trace())..., Tile<T>(p[sizeof...(T) + I], trace())...);
}
template <typename S, typename F> auto callOnTwo(F &f, const std::vector<int> &p, size_t n) {
  constexpr bool isRight = std::invocable<F &, S, S>;
  static_assert(isRight, "the function must take two elements of what is combined: two structs or tuples, or all elements of the left one and all of the right one");
  if constexpr (isRight) return f(fromVariables<S>(p, 0), fromVariables<S>(p, n));
  else return fromVariables<S>(p, 0);
}
/// `f` as a function of the language: of two elements of each tile, first all left ones.
template <typename S, typename F> std::string combination(const Place &at, F &f) {
  using L = Leaves<S>;
  static_assert(AllTiles<L>::value, "what is combined is of tiles only");
  constexpr L *leaves = nullptr;
  constexpr size_t n = leafCount<S>;
  return trace().helper(at, 2 * n, [&](const std::vector<int> &p) {
    auto call = [&] {
      if constexpr (takesLeaves<S, F>(leaves)) return callOnLeaves(f, p, leaves, std::make_index_sequence<n>());
      else return callOnTwo<S>(f, p, n);
    };
    auto result = call();
    static_assert(std::same_as<Leaves<decltype(result)>, L>, "the function must give elements of the types that it takes: a tile, or a struct or std::tuple of them");
    return partsOf(std::move(result));
  });
}
template <typename S, typename F> S combined(const Place &at, std::string_view name, S x, const std::string &axis, F &f, const std::string &keywords) {
  std::string helper = combination<S>(at, f);
  constexpr size_t n = leafCount<S>;
  std::string format = std::string(name) + (n > 1 ? "((" : "(");
  for (size_t i = 0; i < n; ++i) format += i ? ", $" : "$";
  return valueOf<S>(at, format + (n > 1 ? "), " : ", ") + axis + ", " + helper + keywords + ")", partsOf(std::move(x)));
}
template <typename S>
concept Combinable = AnyTile<S> || Bundle<S>;

} // namespace detail

#define TEGULA_TILE_REDUCTION(name, Result)                                                                                                          \
  template <detail::AnyTile X> auto name(X &&x, int axis, ReduceOptions options = {}, Place at = Place::current()) {                                  \
    return detail::alongAxis<Result>(at, "tl." #name, std::forward<X>(x), detail::axisText(axis), detail::reduceKeywords(options));                   \
  }
/// The same of all elements, which gives a scalar unless the dimensions are kept.
#define TEGULA_TILE_REDUCTION_OF_ALL(name, Result)                                                                                                   \
  template <detail::AnyTile X> auto name(X &&x, ReduceOptions options = {}, Place at = Place::current()) {                                            \
    return detail::alongAxis<Result>(at, "tl." #name, std::forward<X>(x), "", detail::reduceKeywords(options));                                      \
  }
TEGULA_TILE_REDUCTION(sum, typename detail::SumOf<detail::ElementOfTile<X>>::type)
TEGULA_TILE_REDUCTION(max, typename detail::ExtremumOf<detail::ElementOfTile<X>>::type)
TEGULA_TILE_REDUCTION(min, typename detail::ExtremumOf<detail::ElementOfTile<X>>::type)
TEGULA_TILE_REDUCTION(xor_sum, detail::ElementOfTile<X>)
TEGULA_TILE_REDUCTION(reduce_or, detail::ElementOfTile<X>)
TEGULA_TILE_REDUCTION_OF_ALL(sum, typename detail::SumOf<detail::ElementOfTile<X>>::type)
TEGULA_TILE_REDUCTION_OF_ALL(max, typename detail::ExtremumOf<detail::ElementOfTile<X>>::type)
TEGULA_TILE_REDUCTION_OF_ALL(min, typename detail::ExtremumOf<detail::ElementOfTile<X>>::type)
TEGULA_TILE_REDUCTION_OF_ALL(xor_sum, detail::ElementOfTile<X>)
#undef TEGULA_TILE_REDUCTION
#undef TEGULA_TILE_REDUCTION_OF_ALL
/// Added in another type: sum<double>(x, 0).
template <TileElement T, detail::AnyTile X> Tile<T> sum(X &&x, int axis, ReduceOptions options = {}, Place at = Place::current()) {
  return detail::alongAxis<T>(at, "tl.sum", std::forward<X>(x), detail::axisText(axis), detail::reduceKeywords(options) + detail::dtypeKeyword<T>());
}
template <TileElement T, detail::AnyTile X> Tile<T> sum(X &&x, ReduceOptions options = {}, Place at = Place::current()) {
  return detail::alongAxis<T>(at, "tl.sum", std::forward<X>(x), "", detail::reduceKeywords(options) + detail::dtypeKeyword<T>());
}

/// Where the extremum is; with it: auto [value, index] = max_with_indices(x, 0).
#define TEGULA_TILE_EXTREMUM(name, extremum)                                                                                                         \
  template <detail::AnyTile X> Tile<int32_t> name(X &&x, int axis, ArgOptions options = {}, Place at = Place::current()) {                            \
    return detail::alongAxis<int32_t>(at, "tl." #name, std::forward<X>(x), detail::axisText(axis),                                                    \
                                      (options.tie_break_left ? "" : ", tie_break_left=False") + detail::reduceKeywords({options.keep_dims}));        \
  }                                                                                                                                                  \
  template <detail::AnyTile X> auto extremum##_with_indices(X &&x, int axis, ArgOptions options = {}, Place at = Place::current()) {                  \
    return detail::valueOf<std::tuple<Tile<detail::ElementOfTile<X>>, Tile<int32_t>>>(                                                                \
        at, "tl." #extremum "($, " + detail::literal(axis) + ", return_indices=True" + (options.tie_break_left ? "" : ", return_indices_tie_break_left=False") +  \
                detail::reduceKeywords({options.keep_dims}) + ")", {detail::partOf(std::forward<X>(x))});                                             \
  }
TEGULA_TILE_EXTREMUM(argmax, max)
TEGULA_TILE_EXTREMUM(argmin, min)
#undef TEGULA_TILE_EXTREMUM

/// `f` combines two elements and must be associative. Of a struct of tiles it takes and gives two such structs; of a std::tuple two tuples, or
/// f(left0, left1, ..., right0, right1, ...), and gives a tuple.
///   reduce(x, 0, [](auto a, auto b) { return tg::maximum(a, b); })
template <detail::Combinable X, typename F> auto reduce(X &&x, int axis, F f, ReduceOptions options = {}, Place at = Place::current()) {
  return detail::combined(at, "tl.reduce", std::remove_cvref_t<X>(std::forward<X>(x)), detail::literal(axis), f, detail::reduceKeywords(options));
}
/// Of all elements.
template <detail::Combinable X, typename F>
  requires(!std::integral<F>)
auto reduce(X &&x, F f, ReduceOptions options = {}, Place at = Place::current()) {
  return detail::combined(at, "tl.reduce", std::remove_cvref_t<X>(std::forward<X>(x)), "None", f, detail::reduceKeywords(options));
}

template <typename X, typename... A>
  requires(!detail::Combinable<X>)
void reduce(X &&, A &&...) TEGULA_DELETED("what is combined is a tile, or a std::tuple or struct of tiles: one without constructors");
template <typename X, typename... A>
  requires(!detail::Combinable<X>)
void associative_scan(X &&, A &&...) TEGULA_DELETED("what is combined is a tile, or a std::tuple or struct of tiles: one without constructors");

/// Element i is of elements 0 to i, or with `reverse` of i to the last.
struct ScanOptions {
  bool reverse = false;
};
/// All prefixes combined, by a function as reduce takes it.
template <detail::Combinable X, typename F> auto associative_scan(X &&x, int axis, F f, ScanOptions options = {}, Place at = Place::current()) {
  return detail::combined(at, "tl.associative_scan", std::remove_cvref_t<X>(std::forward<X>(x)), detail::literal(axis), f, options.reverse ? ", reverse=True" : "");
}
/// Running sums and products; in another type: cumsum<int64_t>(x, 0).
#define TEGULA_TILE_SCAN(name)                                                                                                                       \
  template <detail::AnyTile X> auto name(X &&x, int axis = 0, ScanOptions options = {}, Place at = Place::current()) {                                \
    using R = typename detail::SumOf<detail::ElementOfTile<X>>::type;                                                                                \
    return detail::alongAxis<R>(at, "tl." #name, std::forward<X>(x), detail::axisText(axis), options.reverse ? ", reverse=True" : "");                \
  }                                                                                                                                                  \
  template <TileElement T, detail::AnyTile X> Tile<T> name(X &&x, int axis = 0, ScanOptions options = {}, Place at = Place::current()) {              \
    return detail::alongAxis<T>(at, "tl." #name, std::forward<X>(x), detail::axisText(axis), (options.reverse ? ", reverse=True" : "") + detail::dtypeKeyword<T>());  \
  }
TEGULA_TILE_SCAN(cumsum)
TEGULA_TILE_SCAN(cumprod)
#undef TEGULA_TILE_SCAN

/// `dim` -1 is the last axis, the only one that can be sorted.
struct SortOptions {
  bool descending = false;
  int dim = -1;
};
namespace detail {
inline std::string sortKeywords(SortOptions o, bool usual) { return (o.dim == -1 ? "" : ", dim=" + literal(o.dim)) + (o.descending == usual ? "" : o.descending ? ", descending=True" : ", descending=False") + ")"; }
} // namespace detail
#define TEGULA_TILE_SORT(name)                                                                                                                       \
  template <detail::AnyTile X> auto name(X &&x, SortOptions options = {}, Place at = Place::current()) {                                              \
    return detail::tileOf<detail::ElementOfTile<X>>(at, "tl." #name "($" + detail::sortKeywords(options, false), {detail::partOf(std::forward<X>(x))}); \
  }
TEGULA_TILE_SORT(sort)
/// Of two sorted halves, the second one backwards.
TEGULA_TILE_SORT(bitonic_merge)
#undef TEGULA_TILE_SORT
/// The k largest elements along the last axis, or with `descending` false the smallest.
template <detail::AnyTile X> auto topk(X &&x, int k, SortOptions options = {.descending = true}, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, "tl.topk($, " + detail::literal(k) + detail::sortKeywords(options, true), {detail::partOf(std::forward<X>(x))});
}
/// Elements of `x` at the indices, along an axis.
template <typename T, detail::AnyTile I> Tile<T> gather(const Tile<T> &x, I &&index, int axis, Place at = Place::current()) {
  static_assert(detail::isIndex<I>, "an index is a whole number");
  return detail::tileOf<T>(at, "tl.gather($, $, " + detail::literal(axis) + ")", {detail::partOf(x), detail::partOf(std::forward<I>(index))});
}
/// How many elements (where `mask` is true) have each of the values 0 to bins - 1.
template <detail::AnyTile X, typename M = None> Tile<int32_t> histogram(X &&x, int bins, M &&mask = {}, Place at = Place::current()) {
  static_assert(detail::isIndex<X>, "a histogram is of whole numbers");
  static_assert(detail::isNone<M> || detail::BoolTile<M>, "a mask is a tile of bool: compare with 0");
  std::string format = "tl.histogram($, " + detail::literal(bins);
  std::vector<detail::Part> parts{detail::partOf(std::forward<X>(x))};
  detail::keyword(format, parts, "mask", std::forward<M>(mask));
  return detail::tileOf<int32_t>(at, format + ")", std::move(parts));
}
/// Backwards along an axis, -1: the last one.
template <detail::AnyTile X> auto flip(X &&x, int dim = -1, Place at = Place::current()) {
  return detail::tileOf<detail::ElementOfTile<X>>(at, dim == -1 ? "tl.flip($)" : "tl.flip($, dim=" + detail::literal(dim) + ")", {detail::partOf(std::forward<X>(x))});
}
struct SoftmaxOptions {
  int dim = 0;
  bool keep_dims = false, ieee_rounding = false;
};
template <detail::AnyTile X> auto softmax(X &&x, SoftmaxOptions options = {}, Place at = Place::current()) {
  std::string format = "tl.softmax($";
  if (options.dim) format += ", dim=" + detail::literal(options.dim);
  if (options.keep_dims) format += ", keep_dims=True";
  if (options.ieee_rounding) format += ", ieee_rounding=True";
  return detail::tileOf<detail::ElementOfTile<X>>(at, format + ")", {detail::partOf(std::forward<X>(x))});
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
