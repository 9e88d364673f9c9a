// tegula's C++ interface: the C interface (tegula.h, which has the full story of every call) with owners, spans and results.
//
//   tegula::Context ctx = tegula::Context::create().value();
//   tegula::Function add = ctx.load("kernels.py").value().kernel("add").value();
//   std::vector<float> x(n), y(n), out(n);
//   tegula::Status s = add({(n + 1023) / 1024}, {x, y, out, n, 1024});
//   if (!s) std::cerr << s.message() << '\n';
//
// Header only, C++20, needs no exceptions and no RTTI (Result::value() throws where there are exceptions). Objects are cheap to copy (they share), and may be used from any thread.
#pragma once
#include "tegula/tegula.h"
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if __has_include(<stdfloat>) && __cplusplus > 202002L
#include <stdfloat>
#endif
#ifdef __cpp_exceptions
#include <stdexcept>
#endif

/// A function that must not be called, and why: compilers show this line.
#if defined __cpp_deleted_function && __cplusplus > 202302L
#define TEGULA_DELETED(why) = delete(why)
#else
#define TEGULA_DELETED(why) = delete
#endif

namespace tegula {
inline namespace v0 {

/// One message of the compiler, owning its text.
struct Message {
  int severity = TEGULA_SEVERITY_ERROR;
  std::string kind, text, file, rendered;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0;
};

/// Outcome of a call: true when it worked. Takes a copy of the thread's last error, so it can be kept and passed on.
class [[nodiscard]] Status {
public:
  Status() = default;
  /// What the C call that just returned `code` on this thread said.
  static Status from(TegulaStatus code) {
    Status s;
    if (code == TEGULA_OK) return s;
    s.code_ = code;
    s.message_ = tegula_last_error();
    if (TegulaShortage what; tegula_last_shortage(&what) == TEGULA_OK) s.shortage_ = what;
    for (size_t i = 0, n = code == TEGULA_COMPILE_ERROR ? tegula_diagnostic_count() : 0; i < n; ++i) {
      TegulaDiagnostic d;
      if (tegula_diagnostic_get(i, &d) == TEGULA_OK)
        s.messages_.push_back({d.severity, d.kind, d.message, d.file, d.rendered, d.line, d.column, d.end_line, d.end_column});
    }
    return s;
  }
  explicit operator bool() const { return code_ == TEGULA_OK; }
  TegulaStatus code() const { return code_; }
  /// For people; several lines for compile errors. Empty when it worked.
  const std::string &message() const { return message_; }
  /// The numbers of a TEGULA_OUT_OF_RESOURCES, where there are any.
  const std::optional<TegulaShortage> &shortage() const { return shortage_; }
  /// The diagnostics of a compile error.
  const std::vector<Message> &diagnostics() const { return messages_; }

private:
  TegulaStatus code_ = TEGULA_OK;
  std::string message_;
  std::vector<Message> messages_;
  std::optional<TegulaShortage> shortage_;
};

#ifdef __cpp_exceptions
/// What Result::value() throws where there is no value.
class Error : public std::runtime_error {
public:
  explicit Error(Status why) : std::runtime_error(why.message()), status_(std::move(why)) {}
  const Status &status() const { return status_; }

private:
  Status status_;
};
#endif

template <typename T> class Result;
namespace detail {
template <typename T> struct IsResult : std::false_type {};
template <typename T> struct IsResult<Result<T>> : std::true_type {};
} // namespace detail

/// A value, or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : v_(std::move(value)) {}
  Result(Status why) : v_(std::move(why)) {}
  explicit operator bool() const { return v_.index() == 0; }
  bool has_value() const { return v_.index() == 0; }
  /// The value. If there is none: throws Error; where there are no exceptions, prints the message to stderr and aborts.
  T &value() & { check(); return *std::get_if<0>(&v_); }
  const T &value() const & { check(); return *std::get_if<0>(&v_); }
  T value() && { check(); return std::move(*std::get_if<0>(&v_)); }
  template <typename U> T value_or(U &&other) const & { return *this ? **this : static_cast<T>(std::forward<U>(other)); }
  template <typename U> T value_or(U &&other) && { return *this ? std::move(**this) : static_cast<T>(std::forward<U>(other)); }
  /// There must be one.
  T &operator*() & { return *std::get_if<0>(&v_); }
  const T &operator*() const & { return *std::get_if<0>(&v_); }
  T operator*() && { return std::move(*std::get_if<0>(&v_)); }
  T *operator->() { return std::get_if<0>(&v_); }
  const T *operator->() const { return std::get_if<0>(&v_); }
  /// `f` of the value, or what was wrong so far: `f` gives a Result or a Status.
  ///   context.load("kernels.py").and_then([](const Module &m) { return m.kernel("add"); })
  template <typename F> auto and_then(F &&f) const & { return then(*this, std::forward<F>(f)); }
  template <typename F> auto and_then(F &&f) && { return then(std::move(*this), std::forward<F>(f)); }
  /// OK if there is a value.
  Status status() const { return v_.index() == 0 ? Status() : *std::get_if<1>(&v_); }

private:
  template <typename Self, typename F> static auto then(Self &&self, F &&f) {
    using R = std::remove_cvref_t<decltype(std::forward<F>(f)(*std::forward<Self>(self)))>;
    static_assert(detail::IsResult<R>::value || std::same_as<R, Status>, "and_then: the function must return a Result or a Status");
    return self ? R(std::forward<F>(f)(*std::forward<Self>(self))) : R(self.status());
  }
  void check() const {
    if (v_.index() == 0) return;
#ifdef __cpp_exceptions
    throw Error(*std::get_if<1>(&v_));
#else
    std::fprintf(stderr, "%s\n", std::get_if<1>(&v_)->message().c_str());
    std::abort();
#endif
  }
  std::variant<T, Status> v_;
};

namespace detail {
/// Shared owner of a C handle.
template <typename H, void (*Retain)(H *), void (*Release)(H *)> class Handle {
public:
  Handle() = default;
  /// Takes over one reference.
  explicit Handle(H *h) : h_(h) {}
  Handle(const Handle &o) : h_(o.h_) { if (h_) Retain(h_); }
  Handle(Handle &&o) noexcept : h_(std::exchange(o.h_, nullptr)) {}
  Handle &operator=(Handle o) noexcept { std::swap(h_, o.h_); return *this; }
  ~Handle() { Release(h_); }
  explicit operator bool() const { return h_; }
  /// The C handle, borrowed.
  H *get() const { return h_; }

private:
  H *h_ = nullptr;
};
/// The data type of a C++ type; TEGULA_VOID: none. Characters are no numbers; std::byte is uint8.
template <typename T> consteval TegulaDtype dtypeOf() {
  constexpr bool character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> || std::same_as<T, char16_t> || std::same_as<T, char32_t>;
  if constexpr (std::same_as<T, bool>) return TEGULA_INT1;
  else if constexpr (std::same_as<T, std::byte>) return TEGULA_UINT8;
  else if constexpr (std::integral<T> && !character) {
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    constexpr int first = std::is_signed_v<T> ? TEGULA_INT8 : TEGULA_UINT8;
    return static_cast<TegulaDtype>(sizeof(T) > 8 ? +TEGULA_VOID : first + log);
  }
#ifdef __FLT16_MAX__
  else if constexpr (std::same_as<T, _Float16>) return TEGULA_FP16;
#endif
#ifdef __STDCPP_FLOAT16_T__
  else if constexpr (std::same_as<T, std::float16_t>) return TEGULA_FP16;
#endif
#ifdef __STDCPP_BFLOAT16_T__
  else if constexpr (std::same_as<T, std::bfloat16_t>) return TEGULA_BF16;
#endif
  else if constexpr (std::same_as<T, float>) return TEGULA_FP32;
  else if constexpr (std::same_as<T, double>) return TEGULA_FP64;
  else return TEGULA_VOID;
}
/// A type of elements in memory that kernels know.
template <typename T>
concept Element = dtypeOf<std::remove_cv_t<T>>() != TEGULA_VOID;

template <typename P>
concept ElementPointer = std::is_pointer_v<P> && Element<std::remove_pointer_t<P>>;
/// Elements one after the other that live on when the call is over: an lvalue, or a view.
template <typename R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
/// What std::mdspan offers.
template <typename M>
concept ElementView = !std::ranges::range<M> && requires(const M &m) {
  requires ElementPointer<std::remove_cvref_t<decltype(m.data_handle())>>;
  m.mapping().required_span_size();
};
/// dlpack.h's DLTensor, which need not be included.
template <typename T>
concept DlTensor = requires(const T &t) {
  t.data, t.ndim, t.shape[0], t.strides[0], t.byte_offset;
  t.dtype.code, t.dtype.bits, t.dtype.lanes;
};
} // namespace detail

/// A compile-time object (see "values" in tegula.h). Empty if the constructor failed.
class Value : public detail::Handle<TegulaValue, tegula_value_retain, tegula_value_release> {
public:
  using Handle::Handle;
  static Value none() { return Value(tegula_value_none()); }
  static Value of(bool b) { return Value(tegula_value_bool(b)); }
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  static Value of(I i) { return Value(tegula_value_int(static_cast<int64_t>(i))); }
  static Value of(double d) { return Value(tegula_value_float(d)); }
  static Value of(std::string_view s) { return Value(tegula_value_str(s.data(), s.size())); }
  static Value dtype(const char *spelling) { return Value(tegula_value_dtype(spelling)); }
  static Value parse(const char *literal) { return Value(tegula_value_parse(literal)); }
  std::string repr() const { return get() ? tegula_value_repr(get()) : ""; }
};

/// One argument of a launch. Borrows what it is made of.
class Arg {
public:
  /// A vector, an array, a span ...: its elements.
  template <detail::ElementRange R>
    requires std::ranges::borrowed_range<R>
  Arg(R &&r) { pointer(std::ranges::data(r), static_cast<int64_t>(std::ranges::size(r) * sizeof(std::ranges::range_value_t<R>))); }
  template <detail::ElementRange R> Arg(R &&r) TEGULA_DELETED("an argument borrows its elements: this temporary would take them along; name it first");
  template <detail::ElementView M> Arg(const M &m) {
    pointer(m.data_handle(), static_cast<int64_t>(m.mapping().required_span_size() * sizeof(*m.data_handle())));
  }
  /// A bare address; nothing is known of its extent.
  template <typename P>
    requires detail::ElementPointer<P>
  Arg(const P &p) { pointer(p, -1); }
  /// A launch refuses it if kernels have no such elements.
  template <detail::DlTensor T> Arg(T *t) { dlpack(*t); }
  template <typename P>
    requires(std::is_pointer_v<P> && !detail::ElementPointer<P> && !detail::DlTensor<std::remove_pointer_t<P>>)
  Arg(const P &p) TEGULA_DELETED("a pointer to what is no element type of kernels; name the type: Arg(p, TEGULA_FP32, bytes)");
  /// Memory of a type that C++ has no name for: raw bytes of `dtype` elements.
  Arg(void *p, TegulaDtype dtype, int64_t bytes) : a_(tegula_ptr(p, dtype, bytes)) {}
  Arg(std::same_as<bool> auto b) : a_(tegula_bool(b)) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Arg(I i) : a_(tegula_int(static_cast<int64_t>(i))) {
    if constexpr (std::unsigned_integral<I> && sizeof(I) == 8) a_.kind = TEGULA_ARG_UINT;
  }
  Arg(std::floating_point auto f) : a_(tegula_float(static_cast<double>(f))) {}
  Arg(const Value &v) : a_(tegula_constant(v.get())) {}
  Arg(std::nullptr_t) { a_.kind = TEGULA_ARG_NONE; }
  Arg(TegulaArg a) : a_(a) {}
  const TegulaArg &raw() const { return a_; }

private:
  template <typename T> void pointer(T *p, int64_t bytes) {
    constexpr TegulaDtype d = detail::dtypeOf<std::remove_cv_t<T>>();
    if constexpr (std::is_const_v<T>) a_ = tegula_const_ptr(p, d, bytes);
    else a_ = tegula_ptr(p, d, bytes);
  }
  template <typename T> void dlpack(const T &t) {
    // Kinds of DLDataTypeCode, with what each is for 8, 16, 32 and 64 bits.
    enum : unsigned { Int, Uint, Float, Bfloat = 4, Bool = 6, F8E4M3 = 10, F8E4M3Fnuz = 11, F8E5M2 = 12, F8E5M2Fnuz = 13 };
    const unsigned bits = t.dtype.bits, code = t.dtype.code;
    const int log = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
    int d = TEGULA_VOID;
    if (bits == 8 || bits == 16 || bits == 32 || bits == 64) {
      if (code == Int) d = TEGULA_INT8 + log;
      else if (code == Uint) d = TEGULA_UINT8 + log;
      else if (code == Float && bits > 8) d = bits == 16 ? TEGULA_FP16 : bits == 32 ? TEGULA_FP32 : TEGULA_FP64;
      else if (code == Bfloat && bits == 16) d = TEGULA_BF16;
      else if (bits == 8) d = code == Bool ? TEGULA_INT1 : code == F8E4M3 ? TEGULA_FP8E4NV : code == F8E4M3Fnuz ? TEGULA_FP8E4B8 : code == F8E5M2 ? TEGULA_FP8E5 : code == F8E5M2Fnuz ? TEGULA_FP8E5B16 : TEGULA_VOID;
    }
    if (d == TEGULA_VOID || t.dtype.lanes != 1) {
      a_.kind = 0xff; // no kind: launches refuse it
      return;
    }
    int64_t last = 0, count = 1, dense = 1;
    bool backwards = false;
    for (int i = t.ndim; i-- > 0; dense *= t.shape[i]) {
      int64_t stride = t.strides ? t.strides[i] : dense;
      backwards |= stride < 0;
      last += (t.shape[i] - 1) * stride;
      count *= t.shape[i];
    }
    int64_t bytes = backwards ? -1 : count ? (last + 1) * (bits / 8) : 0;
    a_ = tegula_ptr(static_cast<char *>(t.data) + t.byte_offset, static_cast<TegulaDtype>(d), bytes);
  }
  TegulaArg a_{};
};
static_assert(sizeof(Arg) == sizeof(TegulaArg));

/// A tensor in memory, given to kernels that read and write it in blocks (`desc.load([i, j])`). Keeps no memory alive.
class TensorDescriptor {
public:
  /// Strides in elements, the last one 1; empty: the tensor is dense. What is wrong with the parts is said by the launch.
  TensorDescriptor(const Arg &base, std::vector<int64_t> shape, std::vector<int64_t> strides, std::vector<int64_t> blockShape,
                   int32_t padding = TEGULA_PADDING_ZERO)
      : base_(base.raw()), shape_(std::move(shape)), strides_(std::move(strides)), block_(std::move(blockShape)), padding_(padding) {
    if (strides_.empty()) {
      strides_.assign(shape_.size(), 1);
      for (size_t d = shape_.size(); d-- > 1;)
        strides_[d - 1] = strides_[d] * shape_[d];
    }
  }
  /// The argument, good while this object lives and is not asked again. If the parts are wrong, the last error says why, and a launch refuses it.
  Arg arg() {
    TegulaArg a{};
    bool fits = strides_.size() == shape_.size() && block_.size() == shape_.size();
    if (tegula_tensor_descriptor(&storage_, base_, fits ? shape_.size() : 0, shape_.data(), strides_.data(), block_.data(), padding_, &a) != TEGULA_OK)
      a.kind = 0xff;
    return a;
  }

private:
  TegulaArg base_;
  std::vector<int64_t> shape_, strides_, block_;
  int32_t padding_;
  TegulaTensorDescriptor storage_{};
};

/// Numbers of programs in each dimension; those not given are 1.
struct Grid {
  int64_t n[3] = {1, 1, 1};
  Grid(std::integral auto x) : n{static_cast<int64_t>(x), 1, 1} {}
  Grid(std::integral auto x, std::integral auto y) : n{static_cast<int64_t>(x), static_cast<int64_t>(y), 1} {}
  Grid(std::integral auto x, std::integral auto y, std::integral auto z)
      : n{static_cast<int64_t>(x), static_cast<int64_t>(y), static_cast<int64_t>(z)} {}
};

/// Launch options with their defaults; set the fields you need.
struct LaunchOptions : TegulaLaunchOptions {
  LaunchOptions() : TegulaLaunchOptions(TEGULA_LAUNCH_OPTIONS_INIT) {}
};

/// One compiled form of a kernel.
class Kernel : public detail::Handle<TegulaKernel, tegula_kernel_retain, tegula_kernel_release> {
public:
  using Handle::Handle;
  /// Text or bytes of a stage; lives as long as the kernel.
  Result<std::string_view> stage(const char *name) const {
    const char *text = nullptr;
    size_t n = 0;
    if (Status s = Status::from(tegula_kernel_asm(get(), name, &text, &n)); !s) return s;
    return std::string_view(text, n);
  }
  TegulaKernelInfo info() const {
    TegulaKernelInfo i{};
    i.size = sizeof i;
    (void)tegula_kernel_info(get(), &i);
    return i;
  }
  /// The same on another target, to look at.
  Result<Kernel> compileFor(const char *target) const {
    TegulaKernel *k = nullptr;
    if (Status s = Status::from(tegula_kernel_compile_for(get(), target, &k)); !s) return s;
    return Kernel(k);
  }
  /// What the compiler has to say about it that is no mistake; severity TEGULA_REMARK.
  std::vector<Message> remarks() const {
    std::vector<Message> list;
    for (size_t i = 0, n = tegula_kernel_remark_count(get()); i < n; ++i) {
      TegulaRemark r;
      if (tegula_kernel_remark(get(), i, &r) == TEGULA_OK)
        list.push_back({TEGULA_REMARK, r.kind, r.message, r.file, "", r.line, r.column, r.line, r.column});
    }
    return list;
  }
  TegulaTimings timings() const {
    TegulaTimings t{};
    t.size = sizeof t;
    (void)tegula_kernel_timings(get(), &t);
    return t;
  }
  /// As bytes, for Context::loadKernel.
  Result<std::string> save() const {
    char *bytes = nullptr;
    size_t n = 0;
    if (Status s = Status::from(tegula_kernel_save(get(), &bytes, &n)); !s) return s;
    std::string copy(bytes, n);
    tegula_free(bytes);
    return copy;
  }
  Status operator()(Grid grid, std::span<const Arg> args, const LaunchOptions &options = {}) const {
    return Status::from(tegula_kernel_launch(get(), grid.n, raw(args), args.size(), &options));
  }
  Status operator()(Grid grid, std::initializer_list<Arg> args, const LaunchOptions &options = {}) const {
    return (*this)(grid, std::span(args.begin(), args.size()), options);
  }
  static const TegulaArg *raw(std::span<const Arg> args) { return reinterpret_cast<const TegulaArg *>(args.data()); }
};

/// A kernel in source form. Calling it compiles what is new and launches.
class Function : public detail::Handle<TegulaFunction, tegula_function_retain, tegula_function_release> {
public:
  using Handle::Handle;
  std::string name() const { return tegula_function_name(get()); }
  Status operator()(Grid grid, std::span<const Arg> args, const LaunchOptions &options = {}) const {
    return Status::from(tegula_launch(get(), grid.n, Kernel::raw(args), args.size(), &options, nullptr));
  }
  Status operator()(Grid grid, std::initializer_list<Arg> args, const LaunchOptions &options = {}) const {
    return (*this)(grid, std::span(args.begin(), args.size()), options);
  }
  /// Compiles for these arguments without launching.
  Result<Kernel> compile(std::span<const Arg> args, const LaunchOptions &options = {}) const {
    TegulaKernel *k = nullptr;
    if (Status s = Status::from(tegula_compile(get(), Kernel::raw(args), args.size(), &options, &k)); !s) return s;
    return Kernel(k);
  }
  /// Compiles from a description: "x:*f32:16, n:i32, BLOCK:1024". An empty target means this machine.
  Result<Kernel> compile(const std::string &signature, const std::string &target = "",
                         const LaunchOptions &options = {}) const {
    TegulaKernel *k = nullptr;
    TegulaStatus c = tegula_compile_signature(get(), signature.c_str(), nullptr, 0, target.empty() ? nullptr : target.c_str(),
                                              &options, &k);
    if (Status s = Status::from(c); !s) return s;
    return Kernel(k);
  }
};

/// One configuration of a kernel: values for constexpr parameters, options of its launches (0: what the launch says).
struct Config {
  std::vector<std::pair<std::string, Value>> values;
  int32_t numWarps = 0, numStages = 0, numCtas = 0, maxnreg = 0;
};

/// The configuration that a grid is computed for.
class ConfigView {
public:
  explicit ConfigView(const TegulaConfig &c) : c_(c) {}
  /// The integer value of a parameter, 0 if the configuration has none of that name.
  int64_t operator[](std::string_view name) const {
    int64_t v = 0;
    for (size_t i = 0; i < c_.value_count; ++i)
      if (name == c_.values[i].name) (void)tegula_value_as_int(c_.values[i].value, &v);
    return v;
  }
  const TegulaConfig &raw() const { return c_; }

private:
  const TegulaConfig &c_;
};

/// Values of one parameter or option of launches in a Space: "16, 32", "powers(16, 256)", "range(2, 5)" (TegulaAxis).
struct Axis {
  std::string name, values;
};

/// A product of values, and which of the configurations count (all, if `where` is empty).
///   tegula::Space{{{"BM", "powers(32, 256)"}, {"num_warps", "4, 8"}}, [](tegula::ConfigView c) { return c["BM"] * c.raw().num_warps <= 1024; }}
struct Space {
  std::vector<Axis> axes;
  std::function<bool(ConfigView)> where;
};

/// Options of a tuner with their defaults; set the fields you need.
struct TunerOptions : TegulaTunerOptions {
  TunerOptions() : TegulaTunerOptions(TEGULA_TUNER_OPTIONS_INIT) {}
};

/// A kernel whose configuration is measured at the first launch with arguments of a new kind (tegula_tuner_launch). `key`: parameters for whose
/// values a choice is good; empty: all numbers.
///   auto grid = [&](tegula::ConfigView c) { return tegula::Grid((n + c["BLOCK"] - 1) / c["BLOCK"]); };
///   tegula::Status s = tuned(grid, {x, y, out, n});
class Autotuned : public detail::Handle<TegulaTuner, tegula_tuner_retain, tegula_tuner_release> {
public:
  using Handle::Handle;
  static Result<Autotuned> create(const Function &function, std::span<const Config> configs, const std::vector<std::string> &key = {},
                                  TunerOptions options = {}) {
    std::vector<std::vector<TegulaNamedValue>> values;
    std::vector<TegulaConfig> raw;
    for (const Config &c : configs) {
      std::vector<TegulaNamedValue> &list = values.emplace_back();
      for (auto &[name, value] : c.values) list.push_back({name.c_str(), value.get()});
      raw.push_back({sizeof(TegulaConfig), list.data(), list.size(), c.numWarps, c.numStages, c.numCtas, c.maxnreg});
    }
    std::vector<const char *> names;
    for (const std::string &k : key) names.push_back(k.c_str());
    if (!key.empty()) options.key = names.data(), options.key_count = names.size();
    TegulaTuner *t = nullptr;
    if (Status s = Status::from(tegula_tuner_create(function.get(), raw.data(), raw.size(), &options, &t)); !s) return s;
    return Autotuned(t);
  }
  /// The configurations of a space; more than 32 are searched (tegula_tuner_create_space).
  static Result<Autotuned> search(const Function &function, const Space &space, const std::vector<std::string> &key = {}, TunerOptions options = {}) {
    std::vector<TegulaAxis> axes;
    for (const Axis &a : space.axes) axes.push_back({a.name.c_str(), a.values.c_str(), nullptr, 0});
    TegulaSpace raw{sizeof raw, axes.data(), axes.size(), nullptr, nullptr};
    auto where = [](void *user, const TegulaConfig *config) -> int32_t { return (*static_cast<const std::function<bool(ConfigView)> *>(user))(ConfigView(*config)); };
    if (space.where) raw.where = where, raw.user = const_cast<std::function<bool(ConfigView)> *>(&space.where);
    return fromSpace(function, &raw, key, options);
  }
  /// For a kernel whose constexpr parameters the launches leave out: they are proposed from what the kernel does, the shapes and the device (tegula_propose).
  static Result<Autotuned> automatic(const Function &function, const std::vector<std::string> &key = {}, TunerOptions options = {}) {
    return fromSpace(function, nullptr, key, options);
  }
  /// `grid`: from a ConfigView to a Grid.
  template <std::invocable<ConfigView> GridFn>
  Status operator()(GridFn &&grid, std::span<const Arg> args, const LaunchOptions &options = {}) const {
    return Status::from(tegula_tuner_launch(get(), call<GridFn>, &grid, Kernel::raw(args), args.size(), &options, nullptr));
  }
  template <std::invocable<ConfigView> GridFn>
  Status operator()(GridFn &&grid, std::initializer_list<Arg> args, const LaunchOptions &options = {}) const {
    return (*this)(std::forward<GridFn>(grid), std::span(args.begin(), args.size()), options);
  }
  /// Index of the configuration for these arguments; tunes if need be, launches nothing.
  template <std::invocable<ConfigView> GridFn>
  Result<size_t> choose(GridFn &&grid, std::span<const Arg> args, const LaunchOptions &options = {}) const {
    size_t i = 0;
    if (Status s = Status::from(tegula_tuner_choose(get(), call<GridFn>, &grid, Kernel::raw(args), args.size(), &options, &i)); !s) return s;
    return i;
  }
  /// What the tuning found for the last launch of this thread (tegula_tuner_report_json).
  std::string report() const { return tegula_tuner_report_json(get()); }
  std::string configName(size_t i) const {
    const char *name = tegula_tuner_config_name(get(), i);
    return name ? name : "";
  }

private:
  static Result<Autotuned> fromSpace(const Function &function, const TegulaSpace *space, const std::vector<std::string> &key, TunerOptions options) {
    std::vector<const char *> names;
    for (const std::string &k : key) names.push_back(k.c_str());
    if (!key.empty()) options.key = names.data(), options.key_count = names.size();
    TegulaTuner *t = nullptr;
    if (Status s = Status::from(tegula_tuner_create_space(function.get(), space, &options, &t)); !s) return s;
    return Autotuned(t);
  }
  template <typename GridFn> static int32_t call(void *user, const TegulaConfig *config, int64_t grid[3]) {
    Grid g = (*static_cast<std::remove_reference_t<GridFn> *>(user))(ConfigView(*config));
    for (int i = 0; i < 3; ++i) grid[i] = g.n[i];
    return 0;
  }
};

/// A file of kernels.
class Module : public detail::Handle<TegulaModule, tegula_module_retain, tegula_module_release> {
public:
  using Handle::Handle;
  std::vector<std::string> kernels() const {
    std::vector<std::string> names(tegula_module_kernel_count(get()));
    for (size_t i = 0; i < names.size(); ++i) names[i] = tegula_module_kernel_name(get(), i);
    return names;
  }
  Result<Function> kernel(const char *name) const {
    TegulaFunction *f = nullptr;
    if (Status s = Status::from(tegula_module_function(get(), name, &f)); !s) return s;
    return Function(f);
  }
};

/// Caches, threads, devices. Make one and keep it.
class Context : public detail::Handle<TegulaContext, tegula_context_retain, tegula_context_release> {
public:
  using Handle::Handle;
  static Result<Context> create(const TegulaContextOptions &options = TEGULA_CONTEXT_OPTIONS_INIT) {
    TegulaContext *c = nullptr;
    if (Status s = Status::from(tegula_context_create(&options, &c)); !s) return s;
    return Context(c);
  }
  Result<Module> load(const std::string &path) const {
    TegulaModule *m = nullptr;
    if (Status s = Status::from(tegula_module_from_file(get(), path.c_str(), &m)); !s) return s;
    return Module(m);
  }
  Result<Module> loadText(const std::string &name, std::string_view text) const {
    TegulaModule *m = nullptr;
    if (Status s = Status::from(tegula_module_from_text(get(), name.c_str(), text.data(), text.size(), &m)); !s) return s;
    return Module(m);
  }
  /// A kernel that was saved; `device` -1: for any device that runs it.
  Result<Kernel> loadKernel(std::string_view bytes, int32_t device = -1) const {
    TegulaKernel *k = nullptr;
    if (Status s = Status::from(tegula_kernel_load(get(), bytes.data(), bytes.size(), device, &k)); !s) return s;
    return Kernel(k);
  }
  /// Cancels the launches under way.
  void cancel() const { tegula_cancel(get()); }
};

} // inline namespace v0
} // namespace tegula
