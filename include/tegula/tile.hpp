// Kernels in C++: the language of docs/language.md as a C++ library, next to the host code that launches them. docs/cpp.md is the tour.
//
//   namespace tg = tegula::tile;
//   constexpr auto add = tg::kernel("add(x, y, out, n, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<const float> y, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK) {
//     auto offsets = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
//     auto mask = offsets < n;
//     tg::store(out + offsets, tg::load(x + offsets, mask) + tg::load(y + offsets, mask), mask);
//   });
//   tegula::Status s = add(context)[tg::grid(tg::cdiv(n, 1024))](x, y, out, n, 1024); // vectors, spans, pointers; constexprs in their places
//
// The lambda runs once for each set of constexprs, before the first launch with it. Its operations are written down (tile/trace.hpp) and compiled like
// a kernel in a .py file, so types, promotion, errors, remarks and the compiled code are the same. Needs C++20 and the tegula library, nothing else.
#pragma once
#include "tegula/tegula.hpp"
#include "tegula/tile/control.hpp"
#include "tegula/tile/elements.hpp"
#include "tegula/tile/functions.hpp"
#include "tegula/tile/values.hpp"
#include <algorithm>
#include <map>
#include <mutex>

namespace tegula {
inline namespace v0 {
namespace tile {

/// Numbers of programs in each dimension.
constexpr auto grid = [](auto... n) { return Grid(n...); };

namespace detail {

/// A parameter of a kernel: how it stands in the list of parameters, how the kernel sees it, which arguments it takes.
template <typename P> struct Parameter {
  static_assert(sizeof(P) == 0, "a kernel's parameter is a tg::Ptr<T>, tg::Int, tg::Float, tg::Tile<T>, tg::Desc<T> or tg::Constexpr<T>");
};
template <typename T> struct Parameter<Ptr<T>> {
  static constexpr int constexprs = 0;
  static std::string annotation() { return ""; }
  template <typename A> static Arg argument(A &&a) {
    using Given = std::remove_cvref_t<A>;
    if constexpr (tegula::detail::ElementRange<std::remove_reference_t<A>>) check<std::remove_reference_t<std::ranges::range_reference_t<A>>>();
    else if constexpr (tegula::detail::ElementPointer<Given>) check<std::remove_pointer_t<Given>>();
    else static_assert(std::same_as<Given, Arg>, "an argument for a tg::Ptr<T> is a range of T, a T*, or a tegula::Arg made of an address");
    return Arg(std::forward<A>(a));
  }
  template <typename Given> static void check() {
    static_assert(tegula::detail::dtypeOf<std::remove_cv_t<Given>>() == CodeOf<std::remove_const_t<T>>::code, "the argument's elements are not those of the kernel's tg::Ptr<T>");
    static_assert(std::is_const_v<T> || !std::is_const_v<Given>, "the kernel writes to this parameter, and the argument is const");
  }
};
template <typename T> struct Parameter<Tile<T>> {
  static constexpr int constexprs = 0;
  static std::string annotation() { return std::same_as<T, integer> || std::same_as<T, float> || std::same_as<T, bool> ? "" : std::string(": ") + CodeOf<T>::name; }
  template <typename A> static Arg argument(const A &a) {
    static_assert(std::is_arithmetic_v<A>, "an argument for a scalar parameter is a number");
    if constexpr (std::is_arithmetic_v<A>) {
      static_assert(!std::floating_point<A> || isReal<T>, "a real number for a parameter that is a whole one");
      if constexpr (isReal<T>) return Arg(static_cast<double>(a));
      else return Arg(a);
    }
  }
};
template <typename T> struct Parameter<Desc<T>> {
  static constexpr int constexprs = 0;
  static std::string annotation() { return ""; }
  static Arg argument(TensorDescriptor &d) { return d.arg(); }
};
template <typename T> struct Parameter<Constexpr<T>> {
  static_assert(std::is_arithmetic_v<T>, "a tg::Constexpr<T> is a number");
  static constexpr int constexprs = 1;
  static std::string annotation() { return ": tl.constexpr"; }
  template <typename A> static Arg argument(const A &a) {
    static_assert(std::convertible_to<A, T>, "the value of a tg::Constexpr<T> is a T");
    return Arg(static_cast<T>(a));
  }
};

constexpr bool isNameCharacter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// "add(x, y, n)": a name and names of parameters, or a name alone.
struct Signature {
  std::string_view text;
  constexpr std::string_view name() const { return text.substr(0, text.find('(')); }
  constexpr bool hasParameters() const { return text.find('(') != text.npos; }
  constexpr size_t count() const {
    size_t n = 0;
    bool inName = false;
    for (char c : text.substr(text.find('('))) {
      n += isNameCharacter(c) && !inName;
      inName = isNameCharacter(c);
    }
    return n;
  }
  constexpr std::string_view named(size_t index) const {
    size_t i = text.find('(');
    for (size_t n = 0;; ++n) {
      while (!isNameCharacter(text[i])) ++i;
      size_t end = i;
      while (isNameCharacter(text[end])) ++end;
      if (n == index) return text.substr(i, end - i);
      i = end;
    }
  }
  std::string parameter(size_t index) const { return hasParameters() ? std::string(named(index)) : "p" + std::to_string(index); }
  /// One underscore more than any name begins with.
  std::string prefix() const {
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      run = text[i] == '_' && (i == 0 || run > 0 || !isNameCharacter(text[i - 1])) ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    return std::string(longest + 1, '_');
  }
};

/// Words of the language that C++ leaves to variables, and what a kernel's text uses itself.
constexpr bool isWordOfTheLanguage(std::string_view name) {
  for (std::string_view word : {"False", "None", "True", "as", "assert", "async", "await", "def", "del", "elif", "except", "finally", "from", "global", "import", "in", "is",
                                "lambda", "nonlocal", "pass", "raise", "with", "yield", "tl", "triton"})
    if (name == word) return true;
  return false;
}

inline void this_parameter_has_a_name_that_the_language_needs() {}
inline void signature_names_another_number_of_parameters_than_the_lambda_has() {}
inline void signature_is_not_a_name_or_name_and_parameters() {}

template <typename F> struct Parameters : Parameters<decltype(&F::operator())> {};
template <typename F, typename... P> struct Parameters<void (F::*)(P...) const> { using type = std::tuple<std::remove_cvref_t<P>...>; };

/// The kernel as the library knows it, for each set of constexprs that it was used with.
struct Instances {
  std::mutex mutex;
  std::map<std::string, Function> functions;
};

} // namespace detail

/// What a lambda does, as the language's text; each piece of it with the place in the C++ file that wrote it.
struct Source {
  std::string text;
  std::vector<TegulaOrigin> origins;
};

template <typename F> class KernelOf;

/// A kernel in a context: `add(context)[grid](arguments...)`. Cheap to copy.
template <typename F> class Launcher {
public:
  Launcher(const KernelOf<F> &kernel, const Context &context) : kernel_(kernel), context_(context) {}
  /// The same with options of launches.
  Launcher with(const LaunchOptions &options) const {
    Launcher copy = *this;
    copy.options_ = options;
    return copy;
  }
  /// A function that launches.
  auto operator[](Grid grid) const {
    return [*this, grid](auto &&...arguments) { return launch(grid, std::forward<decltype(arguments)>(arguments)...); };
  }
  /// For these constexprs, in order: to compile by a signature, to look at.
  template <typename... C> Result<Function> function(C... constexprs) const { return kernel_.function(context_, constexprs...); }

private:
  template <typename... A> Status launch(Grid grid, A &&...arguments) const {
    Result<Function> f = kernel_.functionFor(context_, arguments...);
    if (!f) return f.status();
    return (*f)(grid, kernel_.pack(std::forward<A>(arguments)...), options_);
  }

  KernelOf<F> kernel_;
  Context context_;
  LaunchOptions options_;
};

/// Made by tg::kernel.
template <typename F> class KernelOf {
  using Types = typename detail::Parameters<F>::type;
  static constexpr size_t count = std::tuple_size_v<Types>;
  template <size_t I> using P = std::tuple_element_t<I, Types>;

public:
  consteval KernelOf(const char *signature, F f, Place at) : signature_{signature}, f_(f), at_(at) {
    if (signature_.name().empty()) detail::signature_is_not_a_name_or_name_and_parameters();
    for (char c : signature_.name())
      if (!detail::isNameCharacter(c)) detail::signature_is_not_a_name_or_name_and_parameters();
    if (signature_.hasParameters() && signature_.count() != count) detail::signature_names_another_number_of_parameters_than_the_lambda_has();
    for (size_t i = 0; signature_.hasParameters() && i < count; ++i)
      if (detail::isWordOfTheLanguage(signature_.named(i))) detail::this_parameter_has_a_name_that_the_language_needs();
    if (detail::isWordOfTheLanguage(signature_.name())) detail::signature_is_not_a_name_or_name_and_parameters();
    (void)constexprCount(std::make_index_sequence<count>()); // each parameter is one
  }

  Launcher<F> operator()(const Context &context) const { return Launcher<F>(*this, context); }

  /// Text of the kernel for these constexprs.
  template <typename... C> Source source(C... constexprs) const { return source(false, constexprs...); }
  /// The same with the types that C++ takes values for, which the compiler then checks.
  template <typename... C> Source checkedSource(C... constexprs) const { return source(true, constexprs...); }

  template <typename... C> Result<Function> function(const Context &context, C... constexprs) const {
    static_assert(sizeof...(C) == constexprCount(std::make_index_sequence<count>()), "one value for each tg::Constexpr of the kernel");
    std::string key = std::to_string(reinterpret_cast<uintptr_t>(context.get()));
    ((key += "," + detail::literal(constexprs)), ...);
    // Kernels and their context live until the program ends: there is a handful of each.
    static detail::Instances instances;
    {
      std::lock_guard lock(instances.mutex);
      if (auto it = instances.functions.find(key); it != instances.functions.end()) return it->second;
    }
    Source s = source(constexprs...);
    TegulaModule *raw = nullptr;
    std::string name(signature_.name());
    if (Status bad = Status::from(tegula_module_from_trace(context.get(), name.c_str(), s.text.data(), s.text.size(), s.origins.data(), s.origins.size(), &raw)); !bad) return bad;
    Result<Function> f = Module(raw).kernel(name.c_str());
    if (!f) return f;
    std::lock_guard lock(instances.mutex);
    return instances.functions.emplace(key, *f).first->second;
  }

private:
  friend class Launcher<F>;

  template <size_t... I> static constexpr int constexprCount(std::index_sequence<I...>) { return (0 + ... + detail::Parameter<P<I>>::constexprs); }

  template <typename... A> static std::vector<Arg> pack(A &&...arguments) {
    return packed(std::make_index_sequence<count>(), std::forward<A>(arguments)...);
  }
  template <size_t... I, typename... A> static std::vector<Arg> packed(std::index_sequence<I...>, A &&...arguments) {
    return {detail::Parameter<P<I>>::argument(std::forward<A>(arguments))...};
  }

  /// By the constexprs among the arguments of a launch.
  template <typename... A> Result<Function> functionFor(const Context &context, const A &...arguments) const {
    static_assert(sizeof...(A) == count, "one argument for each parameter of the kernel");
    auto all = std::tie(arguments...);
    return std::apply([&](auto... values) { return function(context, values...); }, constexprsOf(all, std::make_index_sequence<count>()));
  }
  template <typename Tuple, size_t... I> static auto constexprsOf(const Tuple &all, std::index_sequence<I...>) { return std::tuple_cat(constexprOf<I>(all)...); }
  template <size_t I, typename Tuple> static auto constexprOf(const Tuple &all) {
    if constexpr (detail::Parameter<P<I>>::constexprs) return std::make_tuple(decltype(P<I>::value)(std::get<I>(all)));
    else return std::tuple<>();
  }

  template <typename... C> Source source(bool checkTypes, C... constexprs) const {
    detail::Trace trace;
    trace.checkTypes = checkTypes;
    trace.prefix = signature_.prefix();
    return write(trace, std::tuple<C...>(constexprs...), std::make_index_sequence<count>());
  }
  template <typename Values, size_t... I> Source write(detail::Trace &trace, const Values &values, std::index_sequence<I...>) const {
    std::string list;
    ((list += (I ? ", " : "") + signature_.parameter(I) + detail::Parameter<P<I>>::annotation()), ...);
    f_(make<I>(trace, values)...);
    detail::Text text = trace.file(at_, signature_.name(), list);
    return {std::move(text.text), std::move(text.origins)};
  }
  template <size_t I, typename Values> P<I> make(detail::Trace &trace, const Values &values) const {
    if constexpr (detail::Parameter<P<I>>::constexprs) return P<I>(static_cast<decltype(P<I>::value)>(std::get<constexprCount(std::make_index_sequence<I>())>(values)));
    else return P<I>(trace.parameter(signature_.parameter(I)), trace);
  }

  detail::Signature signature_;
  F f_;
  Place at_;
};

/// A kernel: its name, perhaps with the names of its parameters (for messages, and for whoever compiles it by a signature), and a lambda that captures
/// nothing. Its parameters are Ptr<T>, Int, Float, Tile<T> (a scalar of that type), Desc<T> and Constexpr<T>.
template <typename F> consteval KernelOf<F> kernel(const char *signature, F f, Place at = Place::current()) { return KernelOf<F>(signature, f, at); }

} // namespace tile
} // inline namespace v0
} // namespace tegula
