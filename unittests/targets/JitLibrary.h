// Test support: functions built with VecEmitter, compiled by Codegen, linked with ld.lld into a shared object and
// loaded. Functions of addElementwise() also run on a GPU, if the machine has one.
#pragma once
#include "GpuLibrary.h"
#include "targets/cpu/Codegen.h"
#include "llvm/IR/LLVMContext.h"
#include <array>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <string>

namespace tegula::cpu {

/// Collects functions of one target; load() compiles them all at once.
class JitLibrary {
public:
  explicit JitLibrary(const std::string &targetName, Options options = {});
  ~JitLibrary();
  JitLibrary(const JitLibrary &) = delete;

  using Body = std::function<llvm::Value *(VecEmitter &, llvm::ArrayRef<llvm::Value *>)>;
  /// void name(const void *const *in, void *out, int64_t n): out[i] = body(in[0][i], in[1][i], ...) for `lanes`
  /// elements at a time, n a multiple of lanes.
  void addElementwise(const std::string &name, unsigned lanes, llvm::ArrayRef<ir::Elem> args, ir::Elem result,
                      const Body &body);
  /// void name(ptr, ptr, ptr): body gets the three pointers and leaves the builder at the end.
  void addPointers(const std::string &name,
                   const std::function<void(VecEmitter &, llvm::ArrayRef<llvm::Value *>)> &body);

  /// Loads everything added so far; adds a test failure and gives false if that does not work.
  bool load();
  void *symbol(const std::string &name) const;
  /// The function `name`, ready to be called; the library must outlive it.
  std::function<void(const void *const *in, void *out, int64_t n)> elementwise(const std::string &name) const;
  /// The same for addPointers; the buffers have these sizes, and only the last one is written.
  std::function<void(void *, void *, void *)> pointers(const std::string &name, std::array<size_t, 3> bytes) const;
  /// Of a CPU.
  const CpuTarget &target() const { return target_; }
  /// Assembly of the module after load(), for looking at it.
  const std::string &objectPath() const { return path_; }
  double optimizeMs = 0, emitMs = 0;

private:
  CpuTarget target_;
  Options options_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> module_;
  std::string path_;
  void *handle_ = nullptr;
  bool emulated_ = false;
  std::optional<nvidia::NvTarget> gpu_;
  nvidia::GpuLibrary onGpu_;
  struct Entry {
    std::vector<ir::Elem> args;
    ir::Elem result = ir::Elem::Void;
    size_t index = 0;
  };
  std::map<std::string, Entry> entries_;

  targets::VecTarget vecTargetOf() const;
  std::string symbolOf(std::string name) const;
  bool loadOnGpu();
  bool linkForEmulator();
  void emulate(const Entry &e, std::vector<std::pair<const void *, size_t>> in, void *out, size_t outBytes,
               int64_t n) const;
};

/// The named targets that this machine can run, widest last.
std::vector<std::string> runnableTargets();
/// Those, and "gpu" if there is one: for tests that use addElementwise() only.
std::vector<std::string> elementwiseTargets();

} // namespace tegula::cpu
