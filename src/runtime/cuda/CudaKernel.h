// A kernel loaded on a GPU, and its launch: one driver call with the packed arguments, without allocation or waiting.
#pragma once
#include "runtime/cuda/CudaDevice.h"

namespace tegula::runtime::cuda {

class CudaKernel final : public Executable {
public:
  /// `code`: a cubin, or PTX text ending in NUL, which the driver assembles. OUT_OF_RESOURCES if the kernel asks for
  /// more than the GPU has, with both numbers; INTERNAL_ERROR, with the driver's log, if the code is rejected.
  static std::unique_ptr<CudaKernel> load(CudaDevice &device, const KernelInfo &info, std::span<const char> code,
                                          Status &status);
  ~CudaKernel() override;

  /// Safe while a stream is captured into a graph, which may use the code until the process ends.
  Status launch(const LaunchCall &call, LaunchOutcome &outcome) const override;
  size_t codeBytes() const override { return codeBytes_; }
  bool needsExtents() const override { return false; }
  GpuUse use() const override { return use_; }

private:
  CudaKernel(CudaDevice &device, const KernelInfo &info)
      : device_(device), info_(std::make_shared<const KernelInfo>(info)), maps_(info, encodeMap) {}
  static std::string encodeMap(const void *driver, const sim::TensorMapSpec &spec, void *map);
  Status loadModule(std::span<const char> code);
  Status readUse();
  Status prepareShared();
  Status prepareLaunch();
  Status launchError(CUresult r, const LaunchCall &call, LaunchOutcome &outcome) const;
  Status refusePointer(const char *args) const;
  CUresult launchWithMaps(const CUlaunchConfig &config, char *args) const;
  void lookForCapture(CUstream stream) const;

  CudaDevice &device_;
  CUcontext context_ = nullptr;
  std::shared_ptr<const KernelInfo> info_;
  CUmodule module_ = nullptr;
  mutable std::atomic<bool> isInGraph_{false}; // of other code: the module is never unloaded
  CUfunction function_ = nullptr;
  GpuUse use_;
  uint32_t sharedBytes_ = 0; // dynamic, of a launch
  size_t codeBytes_ = 0;
  // The prepared launch.
  CUlaunchConfig config_{};
  CUlaunchAttribute attributes_[3]{};
  std::vector<uint32_t> pointers_; // offsets of pointer arguments
  mutable TensorMaps maps_;
  uint32_t recordOffset_ = 0;
  size_t blockBytes_ = 0;
  TegulaGpuRecord *record_ = nullptr;
  uint64_t recordAddress_ = 0;
};

} // namespace tegula::runtime::cuda
