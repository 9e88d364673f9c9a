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
#include "tegula/tile/along.hpp"
#include "tegula/tile/blocks.hpp"
#include "tegula/tile/calls.hpp"
#include "tegula/tile/control.hpp"
#include "tegula/tile/descriptors.hpp"
#include "tegula/tile/elements.hpp"
#include "tegula/tile/functions.hpp"
#include "tegula/tile/libdevice.hpp"
#include "tegula/tile/random.hpp"
#include "tegula/tile/scalars.hpp"
#include "tegula/tile/structs.hpp"
#include "tegula/tile/values.hpp"
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

namespace tegula {
inline namespace v0 {
namespace tile {

// ---- what is not there

#define TEGULA_TILE_MISSING(name, instead) template <typename... A> void name(A &&...) TEGULA_DELETED(instead);
#include "tegula/tile/missing.inc"
#undef TEGULA_TILE_MISSING

/// Numbers of programs in each dimension.
constexpr auto grid = [](auto... n) { return Grid(n...); };

namespace detail {

/// A parameter of a kernel: how it stands in the list of parameters, how the kernel sees it, which arguments it takes.
template <typename P> struct Parameter {
  static_assert(sizeof(P) == 0, "a kernel's parameter is a tg::Ptr<T>, tg::Int, tg::Float, tg::Tile<T>, tg::Desc<T> or tg::Constexpr<T>");
};
template <typename T> struct Parameter<Ptr<T>> {
  static constexpr int constexprs = 0;
  static std::string typeCheck(const std::string &name) { return name + ".dtype.is_ptr() and " + name + ".dtype.element_ty == " + CodeOf<std::remove_const_t<T>>::name; }
  static std::string annotation() { return ""; }
  template <typename A> static Arg argument(A &&a) {
    using Given = std::remove_cvref_t<A>;
    if constexpr (tegula::detail::ElementRange<std::remove_reference_t<A>>) check<std::remove_reference_t<std::ranges::range_reference_t<A>>>();
    else if constexpr (tegula::detail::ElementPointer<Given>) check<std::remove_pointer_t<Given>>();
    else if constexpr (tegula::detail::DeviceElements<A>) check<std::remove_pointer_t<decltype(a.data())>>();
    else if constexpr (tegula::detail::ElementView<Given>) check<std::remove_pointer_t<decltype(a.data_handle())>>();
    else if constexpr (std::is_pointer_v<Given> && tegula::detail::DlTensor<std::remove_pointer_t<Given>>) return Arg(a); // what it holds it says when the kernel is launched
    else static_assert(std::same_as<Given, Arg>, "an argument for a tg::Ptr<T> is a range of T, a T*, a view or a buffer of T, a DLTensor*, or a tegula::Arg made of an address");
    return Arg(std::forward<A>(a));
  }
  /// Of what says its type when it is launched: nothing, or what is wrong.
  static std::string problem(const TegulaArg &a) {
    if (a.kind == TEGULA_ARG_POINTER && a.dtype == CodeOf<std::remove_const_t<T>>::code) return "";
    return "is " + (a.kind == TEGULA_ARG_POINTER ? std::string("*") + tegula_dtype_name(a.dtype) : std::string("no pointer to elements")) + ", the kernel's parameter is *" +
           tegula_dtype_name(static_cast<TegulaDtype>(CodeOf<std::remove_const_t<T>>::code));
  }
  template <typename Given> static void check() {
    static_assert(tegula::detail::dtypeOf<std::remove_cv_t<Given>>() == CodeOf<std::remove_const_t<T>>::code, "the argument's elements are not those of the kernel's tg::Ptr<T>");
    static_assert(std::is_const_v<T> || !std::is_const_v<Given>, "the kernel writes to this parameter, and the argument is const");
  }
};
template <typename T> struct Parameter<Tile<T>> {
  static constexpr int constexprs = 0;
  static std::string typeCheck(const std::string &name) { return std::same_as<T, integer> ? "tl.to_tensor(" + name + ").dtype.is_int()" : "tl.to_tensor(" + name + ").dtype == " + CodeOf<T>::name; }
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
  static std::string typeCheck(const std::string &) { return ""; }
  static std::string annotation() { return ""; }
  static Arg argument(TensorDescriptor &d) { return d.arg(); }
};
template <typename T> struct Parameter<Constexpr<T>> {
  static_assert(std::is_arithmetic_v<T>, "a tg::Constexpr<T> is a number");
  static constexpr int constexprs = 1;
  static std::string typeCheck(const std::string &) { return ""; }
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
template <typename R, typename F, typename... P> struct Parameters<R (F::*)(P...) const> {
  using type = std::tuple<std::remove_cvref_t<P>...>;
  static constexpr bool givesNothing = std::is_void_v<R>;
};
template <typename F> inline constexpr bool givesNothing = Parameters<F>::givesNothing;

/// A kernel as the library knows it, for each set of constexprs that it was used with: a handful, so that looking through them takes less than hashing.
template <typename... C> class Instances {
public:
  std::optional<Function> find(TegulaContext *context, const std::tuple<C...> &constexprs) {
    std::lock_guard lock(mutex_);
    for (const Instance &i : list_)
      if (i.context == context && i.constexprs == constexprs) return i.function;
    return {};
  }
  /// What is known by now counts.
  Function add(TegulaContext *context, const std::tuple<C...> &constexprs, Function f) {
    std::lock_guard lock(mutex_);
    for (const Instance &i : list_)
      if (i.context == context && i.constexprs == constexprs) return i.function;
    return list_.emplace_back(context, constexprs, std::move(f)).function;
  }

private:
  struct Instance {
    TegulaContext *context; // that the function keeps alive
    std::tuple<C...> constexprs;
    Function function;
    Instance(TegulaContext *c, const std::tuple<C...> &v, Function f) : context(c), constexprs(v), function(std::move(f)) {}
  };
  std::mutex mutex_;
  std::deque<Instance> list_;
};

} // namespace detail

/// What a lambda does, as the language's text; each piece of it with the place in the C++ file that wrote it.
struct Source {
  std::string text;
  std::vector<TegulaOrigin> origins;
  std::vector<detail::Extern> externs; // functions of .py files that it calls
};

template <typename F> class KernelOf;

/// A launch of a kernel that is made again and again, see tegula::BoundLaunch: `again()`, or `again(x, y, out, n)`, without constexprs; tegula::same stands for what is as it was bound.
template <typename F> class BoundKernel {
public:
  Status operator()() const { return bound_(); }
  template <typename... A>
    requires(sizeof...(A) > 0)
  Status operator()(A &&...arguments) const { return KernelOf<F>::again(bound_, std::forward<A>(arguments)...); }
  /// The same on another grid; queued on a stream of the same device.
  BoundKernel with(Grid programs) const { return BoundKernel(bound_.with(programs)); }
  BoundKernel on(const Stream &stream) const { return BoundKernel(bound_.on(stream)); }
  const BoundLaunch &untyped() const { return bound_; }

private:
  template <typename> friend class Launcher;
  explicit BoundKernel(BoundLaunch bound) : bound_(std::move(bound)) {}
  BoundLaunch bound_;
};

/// A kernel in a context: `add(context)[grid](arguments...)`. Cheap to copy.
template <typename F> class Launcher {
public:
  Launcher(const KernelOf<F> &of, const Context &in) : kernel_(of), context_(in) {}
  /// The same with options of launches.
  Launcher with(const LaunchOptions &options) const {
    Launcher copy = *this;
    copy.options_ = options;
    return copy;
  }
  /// On a device; queued on a stream.
  Launcher on(const Device &device) const {
    Launcher copy = *this;
    copy.options_.on(device);
    return copy;
  }
  Launcher on(const Stream &stream) const {
    Launcher copy = *this;
    copy.options_.on(stream);
    return copy;
  }
  /// A function that launches.
  auto operator[](Grid programs) const {
    return [*this, programs](auto &&...arguments) { return launch(programs, std::forward<decltype(arguments)>(arguments)...); };
  }
  /// For launches that are made again and again, with arguments of the same class: a callable that looks nothing up.
  ///   auto again = add(context).bind(tg::grid(5), x, y, out, n, 1024).value();
  ///   Status s = again(x, y, other, n);
  template <typename... A> Result<BoundKernel<F>> bind(Grid programs, A &&...arguments) const {
    Result<Function> f = kernel_.functionFor(context_, arguments...);
    if (!f) return f.status();
    BoundLaunch bound;
    Status s = kernel_.withArguments([&](std::span<const Arg> all) {
      Result<BoundLaunch> made = f->bind(programs, all, options_);
      if (made) bound = std::move(*made);
      return made.status();
    }, std::forward<A>(arguments)...);
    if (!s) return s;
    return BoundKernel<F>(std::move(bound));
  }
  /// For these constexprs, in order: to compile by a signature, to look at.
  template <typename... C> Result<Function> function(C... constexprs) const { return kernel_.function(context_, constexprs...); }

private:
  template <typename... A> Status launch(Grid programs, A &&...arguments) const {
    Result<Function> f = kernel_.functionFor(context_, arguments...);
    if (!f) return f.status();
    return kernel_.withArguments([&](std::span<const Arg> all) { return (*f)(programs, all, options_); }, std::forward<A>(arguments)...);
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

  /// The function for these constexprs, one value for each, in order.
  template <typename... C> Result<Function> function(const Context &context, C... constexprs) const {
    static_assert(sizeof...(C) == constexprs_, "one value for each tg::Constexpr of the kernel");
    return functionOf(context, Constexprs(constexprs...));
  }
  /// For a configuration, which names them.
  Result<Function> function(const Context &context, const Config &config) const {
    Constexprs values{};
    Status all;
    eachConstexpr([&](auto index, auto place) {
      const std::string name = signature_.parameter(index);
      auto &value = std::get<place>(values);
      bool isThere = false;
      for (const auto &[given, v] : config.values) {
        if (given != name) continue;
        isThere = true;
        using T = std::remove_reference_t<decltype(value)>;
        int64_t whole = 0;
        double real = 0;
        Status s = std::floating_point<T> ? Status::from(tegula_value_as_float(v.get(), &real)) : Status::from(tegula_value_as_int(v.get(), &whole));
        value = std::floating_point<T> ? static_cast<T>(real) : static_cast<T>(whole);
        if (!s && all) all = s;
      }
      if (!isThere && all) all = Status::error(TEGULA_INVALID_ARGUMENT, "`" + std::string(signature_.name()) + "`: the configuration has no value for `" + name + "`");
    });
    if (!all) return all;
    return functionOf(context, values);
  }

  /// Name of the kernel.
  constexpr std::string_view name() const { return signature_.name(); }

private:
  friend class Launcher<F>;
  friend class BoundKernel<F>;
  template <typename> friend class Tuned;

  template <size_t... I> static constexpr int constexprCount(std::index_sequence<I...>) { return (0 + ... + detail::Parameter<P<I>>::constexprs); }
  static constexpr size_t constexprs_ = constexprCount(std::make_index_sequence<count>());
  template <typename T> struct TupleOf { using type = std::tuple<>; };
  template <typename T> struct TupleOf<Constexpr<T>> { using type = std::tuple<T>; };
  template <size_t... I> static auto valuesOf(std::index_sequence<I...>) -> decltype(std::tuple_cat(std::declval<typename TupleOf<P<I>>::type>()...));
  using Constexprs = decltype(valuesOf(std::make_index_sequence<count>()));
  template <typename T> struct InstancesOf;
  template <typename... C> struct InstancesOf<std::tuple<C...>> { using type = detail::Instances<C...>; };

  /// `f(parameter, constexpr)` with the numbers of each that is one.
  template <typename G> static void eachConstexpr(G &&f) { eachConstexpr(f, std::make_index_sequence<count>()); }
  template <typename G, size_t... I> static void eachConstexpr(G &f, std::index_sequence<I...>) { (each<I>(f), ...); }
  template <size_t I, typename G> static void each(G &f) {
    if constexpr (detail::Parameter<P<I>>::constexprs)
      f(std::integral_constant<size_t, I>(), std::integral_constant<size_t, static_cast<size_t>(constexprCount(std::make_index_sequence<I>()))>());
  }

  Result<Function> functionOf(const Context &context, const Constexprs &constexprs) const {
    // Kernels and their context live until the program ends: there is a handful of each.
    static typename InstancesOf<Constexprs>::type instances;
    if (std::optional<Function> known = instances.find(context.get(), constexprs)) return *known;
    Source s = std::apply([&](auto... c) { return source(c...); }, constexprs);
    TegulaModule *raw = nullptr;
    std::string name(signature_.name());
    if (Status bad = Status::from(tegula_module_from_trace(context.get(), name.c_str(), s.text.data(), s.text.size(), s.origins.data(), s.origins.size(), &raw)); !bad) return bad;
    Module module(raw);
    for (const detail::Extern &e : s.externs) {
      Result<Function> f = context.kernel(e.place());
      if (!f) return f;
      if (Status bad = module.bind(e.name, *f); !bad) return bad;
    }
    Result<Function> f = module.kernel(name);
    if (!f) return f;
    return instances.add(context.get(), constexprs, *f);
  }

  /// `launch` of the arguments, or what is wrong with one that C++ could not know.
  template <typename L, typename... A> Status withArguments(L &&launch, A &&...arguments) const {
    return withArguments(launch, std::make_index_sequence<count>(), std::forward<A>(arguments)...);
  }
  template <typename L, size_t... I, typename... A> Status withArguments(L &launch, std::index_sequence<I...>, A &&...arguments) const {
    const std::array<Arg, count> all{detail::Parameter<P<I>>::argument(std::forward<A>(arguments))...};
    std::string wrong;
    auto look = [&]<size_t K, typename G>(std::integral_constant<size_t, K>, const G *) {
      if constexpr (requires { detail::Parameter<P<K>>::problem(all[K].raw()); } && (std::same_as<G, Arg> || std::is_pointer_v<G>))
        if (std::string what = detail::Parameter<P<K>>::problem(all[K].raw()); !what.empty()) wrong = "argument `" + signature_.parameter(K) + "` " + what;
    };
    (look(std::integral_constant<size_t, I>(), static_cast<const std::remove_cvref_t<A> *>(nullptr)), ...);
    if (!wrong.empty()) return Status::error(TEGULA_INVALID_ARGUMENT, "`" + std::string(signature_.name()) + "`: " + wrong);
    return launch(std::span<const Arg>(all));
  }

  /// A bound launch with arguments for the parameters that are no constexprs.
  template <typename... A> static Status again(const BoundLaunch &bound, A &&...arguments) {
    static_assert(sizeof...(A) == count - constexprs_, "one argument for each parameter of the kernel that is no tg::Constexpr, or none at all");
    if constexpr (sizeof...(A) == count - constexprs_) {
      TegulaArg all[count];
      auto given = std::forward_as_tuple(std::forward<A>(arguments)...);
      placed(all, given, std::make_index_sequence<count>());
      return bound.launch(all, count);
    }
  }
  template <typename Given, size_t... I> static void placed(TegulaArg *all, Given &given, std::index_sequence<I...>) { (placed<I>(all[I], given), ...); }
  template <size_t I, typename Given> static void placed(TegulaArg &to, Given &given) {
    if constexpr (detail::Parameter<P<I>>::constexprs) {
      to.kind = TEGULA_ARG_MISSING;
    } else {
      using A = std::tuple_element_t<I - static_cast<size_t>(constexprCount(std::make_index_sequence<I>())), Given>;
      auto &&argument = std::get<I - static_cast<size_t>(constexprCount(std::make_index_sequence<I>()))>(given);
      if constexpr (std::same_as<std::remove_cvref_t<A>, Same>) to.kind = TEGULA_ARG_MISSING;
      else to = detail::Parameter<P<I>>::argument(static_cast<A>(argument)).raw();
    }
  }

  /// By the constexprs among the arguments of a launch.
  template <typename... A> Result<Function> functionFor(const Context &context, const A &...arguments) const {
    static_assert(sizeof...(A) == count, "one argument for each parameter of the kernel");
    auto all = std::tie(arguments...);
    return functionOf(context, constexprsOf(all, std::make_index_sequence<count>()));
  }
  template <typename Tuple, size_t... I> static auto constexprsOf(const Tuple &all, std::index_sequence<I...>) { return std::tuple_cat(constexprOf<I>(all)...); }
  template <size_t I, typename Tuple> static auto constexprOf(const Tuple &all) {
    if constexpr (detail::Parameter<P<I>>::constexprs) return std::make_tuple(static_cast<decltype(P<I>::value)>(std::get<I>(all)));
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
    // Who calls or launches the function with other constants than it was written down for is told so.
    eachConstexpr([&](auto index, auto place) {
      std::string value = detail::literal(std::get<place>(values));
      trace.effect(at_, "tl.static_assert(" + signature_.parameter(index) + " == " + value + ", \"this kernel was written down for " + signature_.parameter(index) + " = " + value + "\")", {});
    });
    using R = decltype(f_(make<I>(trace, values)...));
    if constexpr (std::is_void_v<R>) {
      f_(make<I>(trace, values)...);
    } else {
      // A function for kernels of .py files: they must call it with the types that C++ took it for.
      (checkParameter<I>(trace), ...);
      detail::giveBack(trace, at_, f_(make<I>(trace, values)...));
    }
    detail::Text text = trace.file(at_, signature_.name(), list);
    return {std::move(text.text), std::move(text.origins), trace.externs()};
  }
  template <size_t I> void checkParameter(detail::Trace &trace) const {
    std::string name = signature_.parameter(I), type = detail::Parameter<P<I>>::typeCheck(name);
    if (!type.empty()) trace.effect(at_, "tl.static_assert(" + type + ", \"`" + name + "` has another element type than C++ takes it for\")", {});
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
template <typename F> consteval KernelOf<F> kernel(const char *signature, F f, Place at = Place::current()) {
  static_assert(detail::givesNothing<F>, "a kernel gives nothing: store what it computes; a function for kernels of .py files is made by tg::function");
  return KernelOf<F>(signature, f, at);
}

/// A function that kernels of .py files can call: module.bind("swish", swish(context).function().value()). (Kernels in C++ call functions of C++.) Its lambda gives a tile, or a
/// struct or std::tuple of them.
template <typename F> consteval KernelOf<F> function(const char *signature, F f, Place at = Place::current()) {
  static_assert(!detail::givesNothing<F>, "a function gives a tile, or a struct or std::tuple of tiles: what only stores is made by tg::kernel");
  return KernelOf<F>(signature, f, at);
}

/// A kernel whose configuration is measured, as tegula::Autotuned and triton.autotune do: made by tg::autotune, once for a program.
template <typename F> class Tuned {
public:
  Tuned(const KernelOf<F> &of, std::vector<Config> configs, Space space, std::vector<std::string> key, TunerOptions options)
      : kernel_(of), configs_(std::move(configs)), space_(std::move(space)), key_(std::move(key)), options_(options) {}

  /// In a context, where launches say arguments for all parameters but the constexprs that are tuned.
  class In {
  public:
    In(Tuned &tuned, const Context &context) : tuned_(tuned), context_(context) {}
    In with(const LaunchOptions &options) const {
      In copy = *this;
      copy.options_ = options;
      return copy;
    }
    In on(const Device &device) const {
      In copy = *this;
      copy.options_.on(device);
      return copy;
    }
    In on(const Stream &stream) const {
      In copy = *this;
      copy.options_.on(stream);
      return copy;
    }
    /// A function that launches, on the grid that `g` gives for a configuration: grid([&](tg::ConfigView c) { return tg::grid(tg::cdiv(n, c["BLOCK"])); }).
    template <std::invocable<ConfigView> G> auto grid(G g) const {
      return [*this, g](auto &&...arguments) { return tuned_.launch(*this, g, std::forward<decltype(arguments)>(arguments)...); };
    }
    /// The tuner behind it: what was measured (report()), the configurations' names.
    Result<Autotuned> tuner() const { return tuned_.in(context_); }

  private:
    friend class Tuned;
    Tuned &tuned_;
    Context context_;
    LaunchOptions options_;
  };
  In operator()(const Context &context) { return In(*this, context); }

private:
  using K = KernelOf<F>;

  template <typename G, typename... A> Status launch(const In &in, const G &programs, A &&...arguments) {
    static_assert(sizeof...(A) == K::count - K::constexprs_, "one argument for each parameter of the kernel that is no tg::Constexpr: those are tuned");
    Result<Autotuned> tuner = this->in(in.context_);
    if (!tuner) return tuner.status();
    std::array<Arg, K::count> all = filled(std::make_index_sequence<K::count>());
    auto given = std::forward_as_tuple(std::forward<A>(arguments)...);
    put(all, given, std::make_index_sequence<K::count>());
    return (*tuner)(programs, std::span<const Arg>(all), in.options_);
  }
  template <size_t... I> static std::array<Arg, K::count> filled(std::index_sequence<I...>) { return {((void)I, Arg(TegulaArg{}))...}; }
  template <typename Given, size_t... I> static void put(std::array<Arg, K::count> &all, Given &given, std::index_sequence<I...>) { (putOne<I>(all, given), ...); }
  template <size_t I, typename Given> static void putOne(std::array<Arg, K::count> &all, Given &given) {
    if constexpr (!detail::Parameter<typename K::template P<I>>::constexprs) {
      constexpr size_t from = I - static_cast<size_t>(K::constexprCount(std::make_index_sequence<I>()));
      all[I] = detail::Parameter<typename K::template P<I>>::argument(std::get<from>(std::move(given)));
    }
  }

  /// The kernel is written down for each configuration. Spaces of more than 32 are searched, as tegula_tuner_create_space says.
  Result<Autotuned> in(const Context &context) {
    std::lock_guard lock(mutex_);
    if (auto it = tuners_.find(context.get()); it != tuners_.end()) return it->second;
    TunerOptions options = options_;
    if (!space_.axes.empty()) {
      if (configs_.empty())
        if (Status s = expand(context); !s) return s;
      if (options.search < 0) options.search = configs_.size() > 32;
    }
    if (configs_.empty()) return Status::error(TEGULA_INVALID_ARGUMENT, "`" + std::string(kernel_.name()) + "`: there are no configurations");
    std::vector<Config> all = configs_;
    for (Config &c : all) {
      Result<Function> f = kernel_.function(context, c);
      if (!f) return f.status();
      c.function = *f;
    }
    Result<Autotuned> made = Autotuned::create(all.front().function, all, key_, options);
    if (made) tuners_.emplace(context.get(), *made);
    return made;
  }
  /// The configurations of the space, by the parser of the library.
  Status expand(const Context &context) {
    // A function with the parameters' names, which does nothing: no values are known to write the kernel down for.
    std::string name(kernel_.name()), parameters;
    for (size_t i = 0; i < K::count; ++i) parameters += (i ? ", " : "") + kernel_.signature_.parameter(i);
    Result<Module> module = context.loadText(name, "import triton\n\n@triton.jit\ndef " + name + "(" + parameters + "):\n  pass\n");
    if (!module) return module.status();
    Result<Function> named = module->kernel(name);
    if (!named) return named.status();
    Result<Autotuned> list = Autotuned::search(*named, space_, {}, {});
    if (!list) return list.status();
    for (size_t i = 0; const TegulaConfig *c = tegula_tuner_config(list->get(), i); ++i) {
      Config own{{}, c->num_warps, c->num_stages, c->num_ctas, c->maxnreg, {}};
      for (size_t k = 0; k < c->value_count; ++k) {
        tegula_value_retain(c->values[k].value);
        own.values.emplace_back(c->values[k].name, Value(c->values[k].value));
      }
      configs_.push_back(std::move(own));
    }
    return {};
  }

  KernelOf<F> kernel_;
  std::vector<Config> configs_;
  Space space_;
  std::vector<std::string> key_;
  TunerOptions options_;
  std::mutex mutex_;
  std::map<TegulaContext *, Autotuned> tuners_;
};

using tegula::Config;
using tegula::ConfigView;
using tegula::Value;

/// `kernel` in the configuration that is fastest for the values of the parameters that `key` names (none: all numbers): measured at the first launch with new ones, kept for
/// later processes, by the rules of docs/autotuning.md. Each configuration has a value for each tg::Constexpr of the kernel.
///   static auto tuned = tg::autotune(add, {{{{"BLOCK", tg::Value::of(256)}}}, {{{"BLOCK", tg::Value::of(1024)}}, 8}}, {"n"});
///   tuned(context).grid([&](tg::ConfigView c) { return tg::grid(tg::cdiv(n, c["BLOCK"])); })(x, y, out, n);
template <typename F> Tuned<F> autotune(const KernelOf<F> &k, std::vector<Config> configs, std::vector<std::string> key = {}, TunerOptions options = {}) {
  return Tuned<F>(k, std::move(configs), {}, std::move(key), options);
}
/// Of all configurations of a space: {{{"BLOCK", "powers(64, 4096)"}, {"num_warps", "4, 8"}}}.
template <typename F> Tuned<F> autotune(const KernelOf<F> &k, Space space, std::vector<std::string> key = {}, TunerOptions options = {}) {
  return Tuned<F>(k, {}, std::move(space), std::move(key), options);
}

} // namespace tile
} // inline namespace v0
} // namespace tegula
