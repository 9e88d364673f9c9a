// tegula's C++ interface: the C interface (tegula.h, which has the full story of every call) with owners, spans and results.
//
//   tegula::Context ctx = tegula::Context::create().value();
//   tegula::Function add = ctx.load("kernels.py").value().kernel("add").value();
//   std::vector<float> x(n), y(n), out(n);
//   tegula::Status s = add({(n + 1023) / 1024}, {x, y, out, n, 1024});
//   if (!s) std::cerr << s.message() << '\n';
//
// What is where: host/status.hpp Status and Result, host/argument.hpp what arguments are, host/device.hpp devices, buffers, streams and events, host/kernel.hpp kernels and
// launches, host/typed.hpp kernels with a C++ signature, host/tuned.hpp tuning. Kernels in C++: tile.hpp.
//
// Header only, C++20, needs no exceptions and no RTTI (Result::value() throws where there are exceptions). Objects are cheap to copy (they share), and may be used from any thread.
#pragma once
#include "tegula/host/argument.hpp"
#include "tegula/host/device.hpp"
#include "tegula/host/kernel.hpp"
#include "tegula/host/status.hpp"
#include "tegula/host/tuned.hpp"
#include "tegula/host/typed.hpp"
#include "tegula/tegula.h"
#include <memory_resource>

namespace tegula {
inline namespace v0 {
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
  Result<Function> kernel(const std::string &name) const { return kernel(name.c_str()); }
  /// A kernel as a function of C++ types (host/typed.hpp).
  template <typename Signature> Result<TypedFunction<Signature>> function(const std::string &name, const Constants &constants = {}, const LaunchOptions &options = {}) const {
    return kernel(name).and_then([&](const Function &f) { return TypedFunction<Signature>::of(f, constants, options); });
  }
  /// What a name of the file is, whatever the file says: a function of another module, or one in C++ (tile.hpp). Before a kernel is asked for.
  Status bind(const std::string &name, const Function &function) const { return Status::from(tegula_module_bind(get(), name.c_str(), function.get())); }
};

/// Options of a context with their defaults; set the fields you need. What is injected is borrowed and must outlive the context.
///   tegula::ContextOptions options;
///   options.allocator(pool).logger(log);
struct ContextOptions : TegulaContextOptions {
  ContextOptions() : TegulaContextOptions(TEGULA_CONTEXT_OPTIONS_INIT) {}
  ContextOptions(const ContextOptions &other) : TegulaContextOptions(other), allocator_(other.allocator_), executor_(other.executor_) { point(); }
  ContextOptions &operator=(const ContextOptions &other) {
    static_cast<TegulaContextOptions &>(*this) = other;
    allocator_ = other.allocator_, executor_ = other.executor_;
    return point(), *this;
  }
  /// Where the memory of buffers comes from: memory that kernels of any device in use can reach (for the CPU and the simulator any).
  ContextOptions &allocator(std::pmr::memory_resource &resource) {
    allocator_ = {&resource,
                  [](void *user, int32_t, uint64_t bytes, uint64_t alignment) -> void * {
#ifdef __cpp_exceptions
                    try {
                      return static_cast<std::pmr::memory_resource *>(user)->allocate(bytes, alignment);
                    } catch (...) {
                      return nullptr;
                    }
#else
                    return static_cast<std::pmr::memory_resource *>(user)->allocate(bytes, alignment);
#endif
                  },
                  [](void *user, int32_t, void *memory, uint64_t bytes) { static_cast<std::pmr::memory_resource *>(user)->deallocate(memory, bytes, 256); }};
    return point(), *this;
  }
  /// The same by device: `a.allocate(device, bytes, alignment)` gives memory or null, `a.deallocate(device, memory, bytes)` takes it back.
  template <typename A>
    requires requires(A &a, void *m) {
      { a.allocate(int32_t(), uint64_t(), uint64_t()) } -> std::convertible_to<void *>;
      a.deallocate(int32_t(), m, uint64_t());
    }
  ContextOptions &allocator(A &a) {
    allocator_ = {&a, [](void *user, int32_t device, uint64_t bytes, uint64_t alignment) -> void * { return static_cast<A *>(user)->allocate(device, bytes, alignment); },
                  [](void *user, int32_t device, void *memory, uint64_t bytes) { static_cast<A *>(user)->deallocate(device, memory, bytes); }};
    return point(), *this;
  }
  /// One piece of a launch's work, for an executor to call with each number below the count once.
  struct Task {
    void (*call)(void *data, uint32_t index);
    void *data;
    void operator()(uint32_t index) const { call(data, index); }
  };
  /// Threads of the program's own: `e(count, task)` calls task(i) for each i below count, on any threads, and returns when all calls have.
  template <std::invocable<uint32_t, Task> E> ContextOptions &executor(E &e) {
    executor_ = {&e, [](void *user, uint32_t count, void (*task)(void *, uint32_t), void *data) { (*static_cast<E *>(user))(count, Task{task, data}); }};
    return point(), *this;
  }
  /// `l(severity, text)` gets warnings (TEGULA_WARNING), and what was compiled (TEGULA_REMARK).
  template <std::invocable<int, std::string_view> L> ContextOptions &logger(L &l) {
    log = [](void *user, int32_t severity, const char *text, size_t length) { (*static_cast<L *>(user))(static_cast<int>(severity), std::string_view(text, length)); };
    log_user = &l;
    return *this;
  }

private:
  void point() {
    TegulaContextOptions::allocator = allocator_.allocate ? &allocator_ : nullptr;
    TegulaContextOptions::executor = executor_.run ? &executor_ : nullptr;
  }
  TegulaAllocator allocator_{};
  TegulaExecutor executor_{};
};

/// Caches, threads, devices. Make one and keep it.
class Context : public detail::ContextHandle {
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
  /// "kernels.py::add" of a file, which is read; "add" of a module of this context that somebody still holds.
  Result<Function> kernel(const std::string &name) const {
    TegulaFunction *f = nullptr;
    if (Status s = Status::from(tegula_context_function(get(), name.c_str(), &f)); !s) return s;
    return Function(f);
  }
  /// The same as a function of C++ types (host/typed.hpp):
  ///   context.function<void(std::span<const float>, std::span<float>, int)>("kernels.py::scale", {{"BLOCK", Value::of(1024)}})
  template <typename Signature> Result<TypedFunction<Signature>> function(const std::string &name, const Constants &constants = {}, const LaunchOptions &options = {}) const {
    return kernel(name).and_then([&](const Function &f) { return TypedFunction<Signature>::of(f, constants, options); });
  }
  /// By name: "cpu", "sim", "cuda", "cuda:1".
  Result<Device> device(const std::string &name) const {
    int32_t index = 0;
    if (Status s = Status::from(tegula_device_find(get(), name.c_str(), &index)); !s) return s;
    return Device(*this, index);
  }
  /// $TEGULA_DEVICE, else the first GPU if there is one, else the CPU. If there is no device of the name in $TEGULA_DEVICE a warning says so, once.
  Device device() const { return Device(*this, tegula_device_default(get())); }
  /// All there are: the CPU, the simulator, the GPUs.
  std::vector<Device> devices() const {
    std::vector<Device> all;
    for (size_t i = 0, n = tegula_device_count(get()); i < n; ++i) all.emplace_back(*this, static_cast<int32_t>(i));
    return all;
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
