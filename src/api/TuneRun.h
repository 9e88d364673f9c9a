// One tuning, whoever asks for it: what is known from files, what is left to measure, and what is kept of it.
#pragma once
#include "api/Handles.h"
#include "tune/Store.h"
#include "tune/Tuner.h"

namespace tegula::api {

struct TuneJob {
  std::shared_ptr<tune::Subject> subject;
  std::string name;                   // of the kernel, for messages
  TegulaFunction *function = nullptr; // whose results they are; null: they are not kept
  std::string arguments;              // class of the arguments: "M=4096, x:*fp16"
  int32_t device = 0;
  void *stream = nullptr;
  tune::Request request;
  bool persist = true, showProgress = false;
  std::string recipe; // JSON of the recipe that the configurations are of; "": there is none
  /// Of kernels that are written down for each configuration: a hash of each one's text, which its results are of.
  /// None: the function's text is all there is.
  std::vector<std::string> texts;
  /// What files call a configuration.
  std::string storedName(size_t i) const;
};

/// Which kernel results are of: by its name and what it does, wherever its file lies.
/// `isFamily`: of all functions of that name and with those parameters, whose configurations say by TuneJob::texts
/// which text they are of.
tune::KernelKey kernelKeyOf(TegulaFunction &f, bool isFamily = false);

/// Options with the context's word where they say nothing.
void readOptions(const TegulaTunerOptions &options, const TegulaContext &context, TuneJob &job);

/// `points`: the job's configurations in a space; none: they are a list. Has them searched if the options say so, or if
/// they say nothing and there are many.
void searchIf(const TegulaTunerOptions &options, std::vector<tune::Point> points, TuneJob &job);

struct TuneReport {
  bool found = false; // there is a configuration to use
  size_t best = 0;
  std::string json; // as of tegula_tuner_report_json
  std::vector<std::string> warnings; // also in `json`
};

/// Looks into the files, waits for other processes that measure the same, tunes what is left, and keeps it. The error's
/// text begins with "tuning `NAME`: ".
runtime::Status runTuning(TegulaContext &context, TuneJob &job, TuneReport &out);

} // namespace tegula::api
