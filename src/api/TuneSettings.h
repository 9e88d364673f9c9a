// A context's settings for tuning.
#pragma once
#include "tune/Store.h"

namespace tegula::api {

struct TuneSettings {
  bool deterministic = false;                // $TEGULA_TUNE
  bool rehearses = false;                    // $TEGULA_TUNE_DRY
  uint64_t copyBytes = uint64_t(4) << 30;    // $TEGULA_TUNE_BYTES
  tune::Places places;                       // $TEGULA_TUNE_DIR and the like
  /// The files of results; made at the first call. Thread-safe.
  tune::Store &results() {
    std::call_once(once_, [&] {
      places.findProject();
      results_ = std::make_unique<tune::Store>(places);
    });
    return *results_;
  }

private:
  std::once_flag once_;
  std::unique_ptr<tune::Store> results_;
};

} // namespace tegula::api
