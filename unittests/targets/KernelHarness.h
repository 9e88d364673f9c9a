// Compiles a kernel given as text IR for this machine (or another target it can run), loads and runs it.
#pragma once
#include "Machine.h"
#include "abi/CpuAbi.h"
#include "ir/Text.h"
#include "runtime/ObjectLoader.h"
#include <cstring>
#include <gtest/gtest.h>

namespace tegula::cpu::test {

/// What a stage emits for a text that compiles without a message.
inline std::string stage(const std::string &text, const CpuTarget &target, Stage s, Options options = {}) {
  DiagEngine diag;
  std::unique_ptr<ir::Module> m = ir::parse(std::make_shared<const SourceFile>("test.ir", text), diag);
  options.verify = true;
  std::optional<std::string> out = m ? emitStage(*m, target, options, s, diag) : std::nullopt;
  for (const Diagnostic &d : diag.all())
    ADD_FAILURE() << d.message() << "\n" << text;
  return out.value_or("");
}

struct Kernel {
  std::unique_ptr<ir::Module> module;
  CpuKernel compiled;
  std::unique_ptr<runtime::LoadedObject> object;
  TegulaCpuEntry entry = nullptr;
  std::string error;

  explicit Kernel(const std::string &text, const std::string &targetName = machineName(), Options options = {})
      : Kernel(text, parseTarget(targetName), options) {}
  Kernel(const std::string &text, const std::optional<CpuTarget> &target, Options options) {
    DiagEngine diag;
    auto file = std::make_shared<const SourceFile>("test.ir", text);
    module = ir::parse(file, diag);
    if (module)
      build(*module, target, options, diag);
    for (const Diagnostic &d : diag.all())
      error += d.message() + "\n";
  }
  Kernel(const ir::Module &m, const std::string &targetName, Options options) {
    DiagEngine diag;
    build(m, parseTarget(targetName), options, diag);
    for (const Diagnostic &d : diag.all())
      error += d.message() + "\n";
  }

private:
  void build(const ir::Module &m, const std::optional<CpuTarget> &target, Options options, DiagEngine &diag) {
    options.verify = true;
    if (target)
      if (auto k = compile(m, *target, options, diag)) {
        compiled = std::move(*k);
        runtime::Status status;
        object = runtime::LoadedObject::load(compiled.code, status);
        if (object)
          entry = reinterpret_cast<TegulaCpuEntry>(object->symbol(compiled.meta.symbol));
        else
          error += status.text;
      }
  }

public:

  struct Arg {
    int64_t bits;
    Arg(int v) : bits(v) {}
    Arg(int64_t v) : bits(v) {}
    Arg(float v) : bits(0) { std::memcpy(&bits, &v, 4); }
    template <typename T>
    Arg(std::vector<T> &v) : bits(reinterpret_cast<int64_t>(v.data())), bytes(v.size() * sizeof(T)) {}
    uint64_t bytes = 0;
  };

  TegulaCpuFault fault{};
  TegulaCpuPrintFn print = nullptr;
  void *user = nullptr;

  int run(std::initializer_list<Arg> args, int gx = 1, int gy = 1, int gz = 1) {
    if (!entry) {
      ADD_FAILURE() << "not compiled: " << error;
      return -1;
    }
    std::vector<char> block(compiled.meta.argBytes + 8);
    std::vector<TegulaCpuExtent> extents;
    size_t i = 0;
    for (const Arg &a : args) {
      const ArgSlot &s = compiled.meta.args[i++];
      std::memcpy(block.data() + s.offset, &a.bits, s.type.isPtr ? 8 : ir::byteWidth(s.type.elem));
      if (s.type.isPtr)
        extents.push_back({static_cast<uint64_t>(a.bits), a.bytes});
    }
    std::vector<char> scratch(compiled.meta.scratchBytes + 64);
    auto at = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
    static const int32_t cancel = 0;
    fault = {};
    TegulaCpuLaunch launch{{gx, gy, gz}, 0, &cancel, &fault, extents.data(), print, user};
    launch.wait = [](const TegulaCpuLaunch *, int64_t) {};
    launch.stopped = [](const TegulaCpuLaunch *, int32_t, int32_t, int32_t, int32_t) {};
    return entry(block.data(), &launch, 0, static_cast<int64_t>(gx) * gy * gz, reinterpret_cast<void *>(at));
  }
};

} // namespace tegula::cpu::test
