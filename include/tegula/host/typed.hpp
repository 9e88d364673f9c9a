// Kernels with a C++ signature. Included by tegula/tegula.hpp.
//
//   auto scale = context.function<void(std::span<const float>, std::span<float>, int)>("kernels.py::scale", {{"BLOCK", tegula::Value::of(1024)}}).value();
//   tegula::Status s = scale(tegula::Grid((n + 1023) / 1024), x, out, n);
//
// The signature is checked when the kernel is looked up: numbers and kinds of parameters, element types, that nothing is written through a span of const elements, and
// whatever else the kernel's text can be wrong about for these types. A launch writes the arguments down and looks up what depends on them alone: alignments, and numbers that are 1 or
// multiples of 16.
#pragma once
#include "tegula/host/kernel.hpp"

namespace tegula {
inline namespace v0 {

/// Values of constexpr parameters by their names: {{"BLOCK", Value::of(64)}}.
using Constants = std::vector<std::pair<std::string, Value>>;

namespace detail {

/// What a parameter of a C++ signature is for a kernel: its type in the kernel's signature, and its argument.
template <typename A> struct TypedParameter {
  static_assert(sizeof(A) == 0, "a parameter of a kernel's signature is a std::span, a pointer to elements, a BufferView, a Buffer &, a number, or a TensorDescriptor &");
};
template <typename T, size_t N>
  requires Element<T>
struct TypedParameter<std::span<T, N>> {
  static constexpr bool isPointer = true;
  static std::string type() { return std::string(std::is_const_v<T> ? "*k" : "*") + tegula_dtype_name(dtypeOf<std::remove_cv_t<T>>()); }
  static TegulaArg argument(std::span<T, N> s) { return Arg(s).raw(); }
};
template <typename T>
  requires Element<T>
struct TypedParameter<T *> {
  static constexpr bool isPointer = true;
  static std::string type() { return TypedParameter<std::span<T>>::type(); }
  static TegulaArg argument(T *p) { return Arg(p).raw(); }
};
template <typename T> struct TypedParameter<BufferView<T>> {
  static constexpr bool isPointer = true;
  static std::string type() { return TypedParameter<std::span<T>>::type(); }
  static TegulaArg argument(const BufferView<T> &b) { return b.arg(); }
};
template <typename T> struct TypedParameter<Buffer<T>> {
  static constexpr bool isPointer = true;
  static std::string type() { return TypedParameter<std::span<T>>::type(); }
  static TegulaArg argument(Buffer<T> &b) { return b.arg(); }
};
template <typename T> struct TypedParameter<const Buffer<T>> {
  static constexpr bool isPointer = true;
  static std::string type() { return TypedParameter<std::span<const T>>::type(); }
  static TegulaArg argument(const Buffer<T> &b) { return b.arg(); }
};
template <typename A> struct IsBuffer : std::false_type {};
template <typename T> struct IsBuffer<Buffer<T>> : std::true_type {};
/// Objects that give their argument themselves, and whose constness counts.
template <typename A> inline constexpr bool isAsked = IsBuffer<std::remove_cvref_t<A>>::value || std::same_as<std::remove_cvref_t<A>, TensorDescriptor>;
template <> struct TypedParameter<TensorDescriptor> {
  static constexpr bool isPointer = true;
  static std::string type() { return ""; } // what the descriptor is, its object says
  static TegulaArg argument(TensorDescriptor &d) { return d.arg().raw(); }
};
/// Of exactly this width, so that a kernel is compiled for one type and not for those that a value happens to fit.
template <typename T>
  requires std::is_arithmetic_v<T>
struct TypedParameter<T> {
  static constexpr bool isPointer = false;
  static constexpr TegulaDtype dtype = dtypeOf<T>();
  static_assert(dtype != TEGULA_VOID, "a number of a kernel's signature is a bool, an integer, a float or a double");
  static std::string type() { return tegula_dtype_name(dtype); }
  static TegulaArg argument(T value) {
    TegulaArg a = Arg(value).raw();
    if constexpr (!std::same_as<T, bool>) a.dtype = dtype;
    return a;
  }
};

/// The parameter of a signature; what a call is given for it.
template <typename P> using ParameterOf = TypedParameter<std::conditional_t<isAsked<P>, std::remove_reference_t<P>, std::remove_cvref_t<P>>>;
template <typename P> using GivenFor = std::conditional_t<isAsked<P>, std::remove_reference_t<P> &, std::remove_cvref_t<P>>;

} // namespace detail

/// A bound launch (host/kernel.hpp) of a kernel that takes A...: `again()`, or `again(x, out, n)`, where tegula::same stands for what is as it was bound. Made by TypedFunction::bind.
template <typename... A> class TypedLaunch {
public:
  Status operator()() const { return bound_(); }
  template <typename... G>
    requires(sizeof...(G) == sizeof...(A) && sizeof...(A) > 0)
  Status operator()(G &&...arguments) const {
    if constexpr ((std::same_as<std::remove_cvref_t<G>, Same> || ...) || (std::same_as<std::remove_cvref_t<A>, TensorDescriptor> || ...)) return byArguments(converted<A>(std::forward<G>(arguments))...);
    else return byWords(static_cast<detail::GivenFor<A>>(std::forward<G>(arguments))...);
  }
  /// The same on another grid; queued on a stream of the same device.
  TypedLaunch with(Grid grid) const { return {bound_.with(grid), places_, count_}; }
  TypedLaunch on(const Stream &stream) const { return {bound_.on(stream), places_, count_}; }
  const BoundLaunch &untyped() const { return bound_; }

private:
  template <typename> friend class TypedFunction;
  static constexpr size_t most = 128;
  using Places = std::array<uint8_t, sizeof...(A) ? sizeof...(A) : 1>;
  TypedLaunch(BoundLaunch bound, const Places &places, size_t count) : bound_(std::move(bound)), places_(places), count_(count) {}
  template <typename P, typename G> static TegulaArg converted(G &&argument) {
    if constexpr (std::same_as<std::remove_cvref_t<G>, Same>) return TegulaArg{};
    else return detail::ParameterOf<P>::argument(static_cast<detail::GivenFor<P>>(std::forward<G>(argument)));
  }
  Status byWords(detail::GivenFor<A>... given) const {
    detail::Words<sizeof...(A), (size_t(detail::ParameterOf<A>::isPointer) + ...)> words;
    (words.add(detail::ParameterOf<A>::argument(given)), ...);
    if (Status status; bound_.launchWords(words, status)) [[likely]] return status;
    return byArguments(detail::ParameterOf<A>::argument(given)...);
  }
  /// One argument for each of A.
  template <typename... Raw> Status byArguments(const Raw &...raw) const {
    TegulaArg all[most];
    if (count_ != sizeof...(A)) // the constants
      for (size_t i = 0; i < count_; ++i) all[i].kind = TEGULA_ARG_MISSING;
    size_t next = 0;
    ((all[places_[next++]] = raw), ...);
    return bound_.launch(all, count_);
  }
  BoundLaunch bound_;
  Places places_;
  size_t count_; // of parameters, constants included
};

template <typename Signature> class TypedFunction {
  static_assert(sizeof(Signature) == 0, "a kernel's signature is a function type: function<void(std::span<const float>, int)>");
};

/// A kernel that takes A...; cheap to copy.
template <typename... A> class TypedFunction<void(A...)> {
  static constexpr size_t most = 128; // parameters, constants included
  template <typename P> using Parameter = detail::ParameterOf<P>;
  template <typename P> using Given = detail::GivenFor<P>;

public:
  /// `f` as a function of these types, with its other parameters constant. What does not fit is TEGULA_INVALID_ARGUMENT, or the compiler's message.
  static Result<TypedFunction> of(Function f, const Constants &constants = {}, const LaunchOptions &options = {}) {
    TypedFunction t(std::move(f), options);
    if (Status s = t.place(constants); !s) return s;
    if (Status s = t.check(constants); !s) return s;
    return t;
  }
  /// The arguments convert as those of every C++ function do: a vector to a span.
  Status operator()(Grid grid, Given<A>... arguments) const {
    TegulaArg all[most];
    write(all, arguments...);
    return Status::from(tegula_launch(function_.get(), grid.n, all, base_.size(), &options_, nullptr));
  }
  /// For launches that are made again and again, with arguments of the same class: a callable that looks nothing up.
  ///   auto again = scale->bind(grid, x, out, n).value();
  ///   Status s = again(x, other, n);
  Result<TypedLaunch<A...>> bind(Grid grid, Given<A>... arguments) const {
    TegulaArg all[most];
    write(all, arguments...);
    Result<BoundLaunch> bound = BoundLaunch::of(function_.get(), grid, all, base_.size(), options_);
    if (!bound) return bound.status();
    return TypedLaunch<A...>(std::move(*bound), places_, base_.size());
  }
  /// The same with other options of launches: a device, a stream.
  TypedFunction with(const LaunchOptions &options) const {
    TypedFunction t = *this;
    t.options_ = options;
    return t;
  }
  const Function &untyped() const { return function_; }

private:
  TypedFunction(Function f, const LaunchOptions &options) : function_(std::move(f)), options_(options) {}

  /// Arguments and constants in their places.
  void write(TegulaArg *all, Given<A> &...arguments) const {
    std::copy(base_.begin(), base_.end(), all);
    size_t next = 0;
    ((all[places_[next++]] = Parameter<A>::argument(arguments)), ...);
  }
  Status wrong(const std::string &what) const { return Status::error(TEGULA_INVALID_ARGUMENT, "`" + function_.name() + "`: " + what); }

  /// Where each argument and constant goes.
  Status place(const Constants &constants) {
    size_t count = tegula_function_param_count(function_.get()), next = 0;
    if (count > most) return wrong("a typed function has at most " + std::to_string(most) + " parameters");
    std::vector<bool> used(constants.size());
    std::string names;
    for (size_t i = 0; i < count; ++i) {
      TegulaParam p;
      if (Status s = Status::from(tegula_function_param(function_.get(), i, &p)); !s) return s;
      bool isConstant = false;
      for (size_t c = 0; c < constants.size() && !isConstant; ++c) {
        if (constants[c].first != p.name) continue;
        isConstant = used[c] = true;
        values_.push_back(constants[c].second);
        base_.push_back(plain(values_.back(), p.flags & TEGULA_PARAM_CONSTEXPR));
      }
      if (isConstant) continue;
      base_.push_back(TegulaArg{});
      if (p.flags & TEGULA_PARAM_CONSTEXPR) {
        if (!p.default_value) return wrong(std::string("the constexpr parameter `") + p.name + "` has no value: give it one, {{\"" + p.name + "\", Value::of(...)}}");
        continue;
      }
      if (next < sizeof...(A)) places_[next] = static_cast<uint8_t>(i);
      names += (next ? ", " : "") + std::string(p.name);
      ++next;
    }
    for (size_t c = 0; c < constants.size(); ++c)
      if (!used[c]) return wrong("there is no parameter `" + constants[c].first + "`");
    if (next != sizeof...(A)) return wrong("the signature has " + std::to_string(sizeof...(A)) + " parameters, the kernel takes " + std::to_string(next) + " at run time: " + names);
    return checkKinds(std::index_sequence_for<A...>());
  }
  /// A whole number as such, which launches look at faster than at an object.
  static TegulaArg plain(const Value &value, bool isConstexpr) {
    int64_t n = 0;
    if (isConstexpr && value && tegula_value_kind(value.get()) == TEGULA_VALUE_INT && tegula_value_as_int(value.get(), &n) == TEGULA_OK) return tegula_int(n);
    return tegula_constant(value.get());
  }
  template <size_t... I> Status checkKinds(std::index_sequence<I...>) const {
    Status all;
    [[maybe_unused]] auto one = [&](size_t i, bool isPointer, const std::string &type) {
      TegulaParam p;
      if (!all || tegula_function_param(function_.get(), places_[i], &p) != TEGULA_OK || type.empty()) return;
      std::string what = "parameter `" + std::string(p.name) + "` is ", mine = ", the signature has " + type;
      if ((p.flags & TEGULA_PARAM_POINTER) && !isPointer) all = wrong(what + "a pointer" + mine);
      else if (p.dtype != TEGULA_VOID && !(p.flags & TEGULA_PARAM_POINTER) && isPointer) all = wrong(what + "annotated " + tegula_dtype_name(p.dtype) + mine);
    };
    (one(I, Parameter<A>::isPointer, Parameter<A>::type()), ...);
    return all;
  }
  /// As far as tile IR: types, stores to what is const.
  Status check(const Constants &constants) const {
    if ((std::same_as<std::remove_cvref_t<A>, TensorDescriptor> || ...)) return {};
    std::string signature;
    std::vector<TegulaNamedValue> named;
    for (const auto &[name, value] : constants) named.push_back({name.c_str(), value.get()});
    size_t next = 0;
    [[maybe_unused]] auto add = [&](const std::string &type) {
      TegulaParam p;
      if (tegula_function_param(function_.get(), places_[next], &p) == TEGULA_OK) signature += (next ? ", " : "") + std::string(p.name) + ":" + type;
      ++next;
    };
    (add(Parameter<A>::type()), ...);
    char *text = nullptr;
    size_t length = 0;
    Status s = Status::from(tegula_emit(function_.get(), signature.c_str(), named.data(), named.size(), nullptr, &options_, "tile", &text, &length));
    tegula_free(text);
    return s;
  }
  Function function_;
  LaunchOptions options_;
  std::vector<TegulaArg> base_; // constants in their places
  std::vector<Value> values_;
  std::array<uint8_t, sizeof...(A) ? sizeof...(A) : 1> places_{};
};

} // inline namespace v0
} // namespace tegula
