// What configurations leave, compared where it lies: two kernels of our own in place of copies to the host. Verdicts
// are those of tune::isClose.
#pragma once
#include "api/Handles.h"
#include "tune/Memory.h"

namespace tegula::api {

/// Compares memory of one device; used by one thread. Results of all launches before on the stream are seen.
class CompareThere {
public:
  CompareThere(TegulaContext &context, int32_t device, void *stream);
  ~CompareThere();
  CompareThere(const CompareThere &) = delete;

  /// As tune::isClose, for two places of the device's memory that are aligned for their type. Nullopt: it cannot be
  /// done there (a type that the device's kernels do not know, no memory, a launch that failed). Waits for the stream.
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
  void *words_ = nullptr; // on the device: the largest value's bits, how many are apart
};

} // namespace tegula::api
