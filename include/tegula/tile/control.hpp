// Control flow that the kernel decides when it runs. Included by tegula/tile.hpp.
//
// `if` and `for` of C++ are decided while the kernel is written down (a `for` is unrolled). What depends on values of the kernel is written with
// functions: each calls the lambda that is its body once. Tiles that the body assigns, captured by reference, are the results of an if_ and are
// carried around loops; they keep type and shape.
//
//   tg::Tile<float> acc = tg::zeros<float>({BM, BN});
//   tg::range(0, k, BK, [&](tg::Int i) { acc = tg::dot(a.load({m, i}), b.load({i, n}), acc); });
//   tg::if_(acc_is_scaled > 0, [&] { acc *= scale; }).else_([&] { acc += bias; });
#pragma once
#include "tegula/tile/values.hpp"

namespace tegula {
inline namespace v0 {
namespace tile {

/// The option of a loop that is refused, where leaving it out lets the compiler choose.
struct Never {};
inline constexpr Never never;
/// Dedicated warps for the copies of a loop: true, false (where they pay), tg::never.
class WarpSpecialize {
public:
  constexpr WarpSpecialize(bool wanted = false) : text_(wanted ? "True" : "") {}
  constexpr WarpSpecialize(Never) : text_("\"never\"") {}
  constexpr const char *text() const { return text_; }

private:
  const char *text_;
};
/// CTAs of a cluster that share the iterations of a loop, whose sums are put together behind it: 2, 4, 8 or 16, or "auto" (as many as the launch's grid leaves idle). 0, 1: none.
class Split {
public:
  constexpr Split() = default;
  template <std::convertible_to<int> P> // a Constexpr<int>, too
    requires(!std::floating_point<P>)
  constexpr Split(P parts) : parts_(parts) {}
  constexpr Split(const char *automatic) : automatic_(automatic) {}
  std::string text() const { return automatic_ ? detail::quoted(automatic_) : parts_ ? detail::literal(parts_) : ""; }

private:
  int parts_ = 0;
  const char *automatic_ = nullptr;
};
/// Options of a loop, as tl.range has them. num_stages and loop_unroll_factor 0: the launch decides.
struct RangeOptions {
  int num_stages = 0, loop_unroll_factor = 0;
  bool flatten = false;
  WarpSpecialize warp_specialize = {};
  bool disallow_acc_multi_buffer = false, disable_licm = false;
  Split split = {};
};
struct WhileOptions {
  bool disable_licm = false; // loop-invariant code stays in the loop
};

namespace detail {

inline std::string optionsText(const RangeOptions &o) {
  std::string text;
  if (o.num_stages) text += ", num_stages=" + literal(o.num_stages);
  if (o.loop_unroll_factor) text += ", loop_unroll_factor=" + literal(o.loop_unroll_factor);
  if (o.flatten) text += ", flatten=True";
  if (*o.warp_specialize.text()) text += std::string(", warp_specialize=") + o.warp_specialize.text();
  if (o.disallow_acc_multi_buffer) text += ", disallow_acc_multi_buffer=True";
  if (o.disable_licm) text += ", disable_licm=True";
  if (const std::string parts = o.split.text(); !parts.empty()) text += ", split=" + parts;
  return text;
}

template <typename F> void loop(const Place &at, std::vector<Part> bounds, const RangeOptions &options, F &&body) {
  static_assert(std::invocable<F, Int>, "the body of a range takes the index: [&](tg::Int i) { ... }");
  Trace &t = trace();
  int index = t.parameter(t.newName());
  std::string format = "for " + t.nameOf(index) + " in tl.range(";
  for (size_t i = 0; i < bounds.size(); ++i) format += i ? ", $" : "$";
  t.compound(at, format + optionsText(options) + ")", bounds, [&] { body(Int(index, t)); });
}

} // namespace detail

/// For each number from `first` up to, not including, `last`, `step` apart (1); first 0 and step 1 may be left out.
template <detail::Operand A, detail::Operand B, detail::Operand C, typename F>
void range(A &&first, B &&last, C &&step, const RangeOptions &options, F &&body, Place at = Place::current()) {
  static_assert(detail::isIndex<A> && detail::isIndex<B> && detail::isIndex<C>, "a range is of whole numbers");
  detail::loop(at, std::vector<detail::Part>{detail::partOf(std::forward<A>(first)), detail::partOf(std::forward<B>(last)), detail::partOf(std::forward<C>(step))}, options, std::forward<F>(body));
}
template <detail::Operand A, detail::Operand B, detail::Operand C, std::invocable<Int> F>
void range(A &&first, B &&last, C &&step, F &&body, Place at = Place::current()) {
  range(std::forward<A>(first), std::forward<B>(last), std::forward<C>(step), RangeOptions{}, std::forward<F>(body), at);
}
template <detail::Operand A, detail::Operand B, typename F>
void range(A &&first, B &&last, const RangeOptions &options, F &&body, Place at = Place::current()) {
  static_assert(detail::isIndex<A> && detail::isIndex<B>, "a range is of whole numbers");
  detail::loop(at, std::vector<detail::Part>{detail::partOf(std::forward<A>(first)), detail::partOf(std::forward<B>(last))}, options, std::forward<F>(body));
}
template <detail::Operand A, detail::Operand B, std::invocable<Int> F> void range(A &&first, B &&last, F &&body, Place at = Place::current()) {
  range(std::forward<A>(first), std::forward<B>(last), RangeOptions{}, std::forward<F>(body), at);
}
template <detail::Operand B, typename F> void range(B &&last, const RangeOptions &options, F &&body, Place at = Place::current()) {
  static_assert(detail::isIndex<B>, "a range is of whole numbers");
  detail::loop(at, std::vector<detail::Part>{detail::partOf(std::forward<B>(last))}, options, std::forward<F>(body));
}
template <detail::Operand B, std::invocable<Int> F> void range(B &&last, F &&body, Place at = Place::current()) {
  range(std::forward<B>(last), RangeOptions{}, std::forward<F>(body), at);
}

/// What if_ gives, for its other arm.
class [[maybe_unused]] If {
public:
  explicit If(detail::Statement &s) : statement_(&s) {}
  template <std::invocable F> void else_(F &&body, Place at = Place::current()) {
    detail::Trace &t = detail::trace();
    if (!t.isLast(statement_)) return t.fail(at, "else_ must follow its if_ directly");
    detail::Text head;
    head += "else";
    t.arm(*statement_, std::move(head), std::forward<F>(body));
  }

private:
  detail::Statement *statement_;
};

/// The body where the condition holds: a scalar of the kernel. (For tiles: tg::where.)
template <detail::AnyTile C, std::invocable F> If if_(C &&condition, F &&body, Place at = Place::current()) {
  return If(detail::trace().compound(at, "if $", {detail::partOf(std::forward<C>(condition))}, std::forward<F>(body)));
}
template <detail::Number C, typename F> If if_(C, F &&) TEGULA_DELETED("this condition is known to C++: write `if`");

/// The body again and again while the condition, a lambda of one expression, holds.
template <std::invocable C, std::invocable F> void while_(C &&condition, WhileOptions options, F &&body, Place at = Place::current()) {
  static_assert(detail::AnyTile<std::invoke_result_t<C>>, "the condition of while_ gives a scalar of the kernel: [&] { return i < n; }");
  detail::Trace &t = detail::trace();
  detail::Text head;
  head += options.disable_licm ? "while tl.condition(" : "while ";
  head += t.expression(at, [&] { return detail::partOf(condition()); });
  if (options.disable_licm) head += ", disable_licm=True)";
  t.compound(at, std::move(head), std::forward<F>(body));
}
template <std::invocable C, std::invocable F> void while_(C &&condition, F &&body, Place at = Place::current()) {
  while_(std::forward<C>(condition), WhileOptions{}, std::forward<F>(body), at);
}

/// In the body of a range or while_, or of an if_ there: the next time round; no further one. (In strict mode refused, as the language's extensions are.)
inline void continue_(Place at = Place::current()) { detail::trace().effect(at, "continue", {}); }
inline void break_(Place at = Place::current()) { detail::trace().effect(at, "break", {}); }
/// This program of the kernel ends: tg::if_(row >= rows, [&] { tg::return_(); });
inline void return_(Place at = Place::current()) { detail::trace().effect(at, "return", {}); }

} // namespace tile
} // inline namespace v0
} // namespace tegula
