// Compares the results of configurations in device memory, with two kernels of tegula's own, instead of copying them to
// the host. The verdicts are those of tune::isClose.
#pragma once
#include "api/Handles.h"
#include "tune/Memory.h"

namespace tegula::api {

/// Compares memory of one device; used by one thread. Sees the results of all earlier launches on the stream.
class CompareThere {
public:
  CompareThere(TegulaContext &context, int32_t device, void *stream);
  ~CompareThere();
  CompareThere(const CompareThere &) = delete;

  /// As tune::isClose, for two places in the device's memory that are aligned for their type. Nullopt: they cannot be
  /// compared there (a type that the device's kernels do not support, no memory, a failed launch). Waits for the
  /// stream.
  std::optional<bool> operator()(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes, double tolerance);

private:
  bool open();
  bool launch(TegulaFunction &f, const TegulaArg *args, size_t count, int64_t elements);

  TegulaContext &context_;
  int32_t index_;
  void *stream_;
  runtime::Device *device_ = nullptr;
  Ref<TegulaModule> module_;
  Ref<TegulaFunction> largest_, floats_, others_;
  void *words_ = nullptr; // on the device: the bits of the largest value, the number of elements apart
};

} // namespace tegula::api
