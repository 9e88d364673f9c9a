// Kernels, compiled and in source form, and their launches. Included by tegula/tegula.hpp.
#pragma once
#include "tegula/host/device.hpp"
#include <initializer_list>

namespace tegula {
inline namespace v0 {
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
  /// On a device; queued on a stream, which says the device.
  LaunchOptions(const Device &where) : LaunchOptions() { on(where); }
  LaunchOptions(const Stream &where) : LaunchOptions() { on(where); }
  LaunchOptions &on(const Device &where) { return device = where.index(), *this; }
  LaunchOptions &on(const Stream &where) { return stream = where.handle(), device = where.deviceIndex(), *this; }
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

/// A launch that is made again and again: a kernel for one class of arguments, with its grid and options. What a launch looks up was looked up when it was bound.
///   tegula::BoundLaunch again = add.bind(grid, {x, y, out, n, 1024}).value();
///   tegula::Status s = again();                 // the same arguments
///   s = again({x, y, other, n});                // others of their class; what is left out, or tegula::same, is as it was bound
/// Cheap to copy. Keeps its kernel and context alive, and no memory that arguments point to. Never changes: threads may call one at once. Arguments of another class (type, divisibility by 16,
/// being 1, shared memory, another constant) are TEGULA_INVALID_ARGUMENT, and the message names the first one.
class BoundLaunch : public detail::Handle<TegulaBoundLaunch, tegula_bound_retain, tegula_bound_release> {
public:
  BoundLaunch() = default;
  BoundLaunch(TegulaBoundLaunch *b, const LaunchOptions &options) : Handle(b), options_(options) {}
  static Result<BoundLaunch> of(TegulaFunction *f, const Grid &grid, const TegulaArg *args, size_t count, const LaunchOptions &options) {
    TegulaBoundLaunch *b = nullptr;
    if (Status s = Status::from(tegula_bound_create(f, grid.n, args, count, &options, &b)); !s) return s;
    return BoundLaunch(b, options);
  }
  Status operator()() const { return launch(nullptr, 0); }
  Status operator()(std::span<const Arg> args) const { return launch(Kernel::raw(args), args.size()); }
  Status operator()(std::initializer_list<Arg> args) const { return launch(Kernel::raw({args.begin(), args.size()}), args.size()); }
  /// The same on another grid; queued on a stream of the same device.
  BoundLaunch with(Grid grid) const {
    BoundLaunch copy = *this;
    copy.grid_ = grid, copy.hasGrid_ = true;
    return copy;
  }
  BoundLaunch on(const Stream &stream) const {
    BoundLaunch copy = *this;
    copy.options_.stream = stream.handle();
    return copy;
  }
  Kernel kernel() const {
    TegulaKernel *k = tegula_bound_kernel(get());
    if (k) tegula_kernel_retain(k);
    return Kernel(k);
  }
  Status launch(const TegulaArg *args, size_t count) const { return Status::from(tegula_bound_launch(get(), hasGrid_ ? grid_.n : nullptr, args, count, &options_)); }
  /// False: `arguments` must be given to launch() (tegula_bound_launch_words).
  template <size_t Count, size_t Pointers> bool launchWords(const detail::Words<Count, Pointers> &arguments, Status &status) const {
    TegulaStatus code;
    if (!tegula_bound_launch_words(get(), hasGrid_ ? grid_.n : nullptr, arguments.words, Count, arguments.extents, Pointers, &options_, &code)) return false;
    status = Status::from(code);
    return true;
  }

private:
  LaunchOptions options_;
  Grid grid_ = 1;
  bool hasGrid_ = false;
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
  /// For launches that are made again and again.
  Result<BoundLaunch> bind(Grid grid, std::span<const Arg> args, const LaunchOptions &options = {}) const { return BoundLaunch::of(get(), grid, Kernel::raw(args), args.size(), options); }
  Result<BoundLaunch> bind(Grid grid, std::initializer_list<Arg> args, const LaunchOptions &options = {}) const { return bind(grid, std::span(args.begin(), args.size()), options); }
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

} // inline namespace v0
} // namespace tegula
