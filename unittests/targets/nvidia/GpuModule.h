// Test support: small kernels built with Instr, for a GPU or for the simulator.
#pragma once
#include "runtime/cuda/Assembler.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/instr/Instr.h"
#include "llvm/IR/LLVMContext.h"
#include <functional>
#include <gtest/gtest.h>
#include <string>

namespace tegula::nvidia {

/// Packed arguments of every kernel.
struct TestArgs {
  uint64_t data;
  int32_t n;
  float x;
  double y;
};

/// One LLVM module for one target; every kernel takes TestArgs.
class GpuModule {
public:
  explicit GpuModule(const NvTarget &target, Options options = {});

  /// What a kernel is built from.
  struct Kernel {
    Instr &i;
    llvm::IRBuilder<> &b;
    V data, n, x, y; // parameters
    V shared;        // address of shared memory
    V pred;          // i1, different from thread to thread
    /// Stores a value of any type (i1 too), so that it is not dead.
    void use(V value);
    void use(const Regs &values);
    V i32(int64_t k) { return b.getInt32(static_cast<uint32_t>(k)); }
    /// `count` different values.
    Regs ints(unsigned count);
    Regs floats(unsigned count);
    Regs halves(unsigned count);
    Regs doubles(unsigned count);
    int64_t used = 0;
  };
  void add(const std::string &name, const std::function<void(Kernel &)> &body, KernelBounds bounds = {});

  /// Verifies, optimizes and emits; PTX, or assembly of the host.
  const std::string &text();
  /// Instead of text(): code for the simulator.
  std::vector<char> object();
  /// Lines of one kernel in text().
  std::string textOf(const std::string &name);
  std::string irOf(const std::string &name);
  llvm::Module &module() { return *module_; }
  const NvTarget &target() const { return target_; }

private:
  NvTarget target_;
  Options options_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> module_;
  std::string text_;
};

/// "sm_90a"
std::string archName(const NvTarget &t);
/// Assembles PTX; a test failure with the log if that does not work. False without a failure if there is no assembler:
/// the reason is printed once.
bool assembles(const std::string &ptx, const NvTarget &t, runtime::cuda::Assembly &out);

} // namespace tegula::nvidia
