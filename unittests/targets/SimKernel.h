// A kernel compiled for the simulator, and launched there without the runtime's devices.
#pragma once
#include "gpu/Passes.h"
#include "runtime/ObjectLoader.h"
#include "runtime/TensorMaps.h"
#include "sim/Machine.h"
#include "targets/common/Pipeline.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/lower/Lower.h"
#include "targets/nvidia/TargetInfo.h"
#include <cstring>
#include <gtest/gtest.h>

namespace tegula::test {

using ir::byteWidth;
using ir::Module;

struct SimKernel {
  nvidia::GpuKernel compiled;
  std::unique_ptr<runtime::LoadedObject> object;
  TegulaSimEntry entry = nullptr;
  std::string error;

  SimKernel(const Module &m, unsigned warps, const char *target = "sim") {
    nvidia::Options options;
    options.verify = true;
    options.numWarps = warps;
    DiagEngine diag;
    if (auto k = nvidia::compile(m, *nvidia::parseTarget(target), options, diag)) {
      compiled = std::move(*k);
      load();
    }
    addMessages(diag);
  }

  /// Of GPU IR; the two last passes run if they have not run yet.
  SimKernel(std::unique_ptr<Module> m, unsigned warps) {
    nvidia::Options options;
    options.numWarps = warps;
    DiagEngine diag;
    const nvidia::NvTarget target = *nvidia::parseTarget("sim");
    gpu::Options gpuOptions{.numWarps = warps};
    for (const char *pass : {"allocate-shared", "order-memory"})
      gpu::findGpuPass(pass)->run(m, {nvidia::NvTargetInfo(target), gpuOptions, &diag});
    llvm::LLVMContext context;
    llvm::Module out("k", context);
    std::unique_ptr<llvm::TargetMachine> machine = nvidia::createTargetMachine(target, options, diag);
    out.setTargetTriple(machine->getTargetTriple().str());
    out.setDataLayout(machine->createDataLayout());
    if (nvidia::lower(*m, target, options, out, compiled.meta, diag) &&
        targets::verifyModule(out, "before optimization", {}, diag)) {
      nvidia::optimize(out, *machine, options);
      compiled.code = nvidia::emitObject(out, *machine);
      load();
    }
    addMessages(diag);
  }

  sim::Report run(std::span<const uint64_t> args, std::span<const sim::Extent> buffers,
                  std::array<int32_t, 3> grid = {1, 1, 1}) {
    runtime::KernelInfo info = described();
    std::vector<char> block(runtime::recordOffset(info) + 8 + 64);
    // Tensor maps are aligned.
    char *at = block.data() + (64 - reinterpret_cast<uintptr_t>(block.data()) % 64) % 64;
    for (size_t i = 0; i < args.size(); ++i) {
      const targets::ArgSlot &s = compiled.meta.args[i];
      std::memcpy(at + s.offset, &args[i], s.type.isPtr ? 8 : byteWidth(s.type.elem));
    }
    runtime::TensorMaps maps(
        info, [](const void *, const sim::TensorMapSpec &spec, void *map) { return sim::encodeTensorMap(spec, map); });
    if (runtime::Status s = maps.append(info, nullptr, at, grid.data()); !s)
      ADD_FAILURE() << s.text;
    sim::LaunchConfig c;
    c.entry = entry;
    c.args = at;
    c.grid = grid;
    c.threads = compiled.meta.threads;
    c.sharedBytes = compiled.meta.sharedBytes;
    c.buffers = buffers;
    return sim::launch(c);
  }

private:
  void load() {
    runtime::Status status;
    object = runtime::LoadedObject::load(compiled.code, status);
    if (object)
      entry = reinterpret_cast<TegulaSimEntry>(object->symbol(compiled.meta.symbol));
    error = status.text;
  }
  void addMessages(const DiagEngine &diag) {
    for (const Diagnostic &d : diag.all())
      error += d.message() + "\n";
  }
  /// As far as tensor maps are concerned.
  runtime::KernelInfo described() const {
    runtime::KernelInfo info;
    info.argBytes = compiled.meta.argBytes;
    for (const targets::ArgSlot &a : compiled.meta.args)
      info.args.push_back({a.name, static_cast<TegulaDtype>(a.type.isPtr ? TEGULA_FP16 : TEGULA_INT32), a.type.isPtr,
                           a.read, a.written, a.offset});
    for (const nvidia::TensorMap &t : compiled.meta.tensorMaps) {
      auto term = [](const nvidia::TensorMap::Term &x) {
        return runtime::TensorMapTerm{x.arg, x.value, x.gridAxis, x.arg2};
      };
      EXPECT_EQ(t.elem, ir::Elem::F16);
      runtime::TensorMapInfo map{TEGULA_FP16, t.nanFill, t.swizzle, term(t.base), {}, {}, t.box, t.roundTf32, t.merged};
      for (size_t d = 0; d < t.box.size(); ++d)
        map.extents.push_back(term(t.extents[d])), map.strides.push_back(term(t.strides[d]));
      info.tensorMaps.push_back(std::move(map));
    }
    return info;
  }
};

} // namespace tegula::test
