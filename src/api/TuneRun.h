// One tuning, for every caller: reads known results from files, measures the rest, and stores the results.
#pragma once
#include "api/Handles.h"
#include "tune/Store.h"
#include "tune/Tuner.h"

namespace tegula::api {

struct TuneJob {
  std::shared_ptr<tune::Subject> subject;
  std::string name;                   // of the kernel, for messages
  TegulaFunction *function = nullptr; // the results belong to it; null: results are not stored
  std::string arguments;              // class of the arguments: "M=4096, x:*fp16"
  int32_t device = 0;
  void *stream = nullptr;
  tune::Request request;
  bool persist = true, showProgress = false;
  std::string recipe; // JSON of the recipe that made the configurations; "": there is none
  /// For kernels whose text differs by configuration: a hash of each one's text, to which its results belong. Empty:
  /// all configurations share the function's text.
  std::vector<std::string> texts;
  /// The name of a configuration in files.
  std::string storedName(size_t i) const;
};

/// The kernel that results belong to: its name and its meaning, independent of the file's location. `isFamily`: the key
/// covers all functions of that name and with those parameters; their configurations name their text by TuneJob::texts.
tune::KernelKey kernelKeyOf(TegulaFunction &f, bool isFamily = false);

/// Applies the caller's options, and the context's settings where the options are not set.
void readOptions(const TegulaTunerOptions &options, const TegulaContext &context, TuneJob &job);

/// `points`: the job's configurations in a space; empty: they are a list. Enables the search if the options ask for it,
/// or if they are not set and there are many configurations.
void searchIf(const TegulaTunerOptions &options, std::vector<tune::Point> points, TuneJob &job);

struct TuneReport {
  bool found = false; // there is a usable configuration
  size_t best = 0;
  std::string json; // as of tegula_tuner_report_json
  std::vector<std::string> warnings; // also in `json`
};

/// Reads the files, waits for other processes that measure the same, tunes what is left, and stores the results. An
/// error's text begins with "tuning `NAME`: ".
runtime::Status runTuning(TegulaContext &context, TuneJob &job, TuneReport &out);

} // namespace tegula::api
