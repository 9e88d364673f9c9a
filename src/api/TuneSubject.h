// A function and its configurations as a subject of the tuner (src/tune): compiled and launched with the arguments of
// one call.
#pragma once
#include "api/Compile.h"
#include "api/Rehearsal.h"
#include "tune/Tuner.h"
#include <deque>

namespace tegula::api {

/// A TegulaConfig that owns its values.
struct TuneConfig {
  struct Value {
    std::string name;
    uint32_t param = 0; // index of the parameter
    Ref<TegulaValue> value;
  };
  std::vector<Value> values;
  Ref<TegulaFunction> function;           // null: the tuner's
  std::string name;                       // "BLOCK: 64, num_warps: 4"
  std::vector<TegulaNamedValue> borrowed; // `values`, for `view`
  // what callers see, and the numbers; valid as long as this object does not move
  TegulaConfig view{};

  /// Copies `args` with the configuration's values in their places to `to`, which has room for all of the function's
  /// parameters. Returns the new count.
  size_t apply(const TegulaArg *args, size_t count, TegulaArg *to) const;
  /// Sets the options that the configuration sets.
  void apply(TegulaLaunchOptions &options) const;
};

/// Arguments with their tuples and values kept alive, for threads that may outlive the call.
class OwnedArgs {
public:
  OwnedArgs(const TegulaArg *args, size_t count);
  const std::vector<TegulaArg> &list() const { return list_; }

private:
  TegulaArg own(const TegulaArg &a);
  std::vector<TegulaArg> list_;
  std::deque<std::vector<TegulaArg>> items_;
  std::vector<Ref<TegulaValue>> values_;
};

/// Configurations must outlive the subject, which keeps their owner alive.
class TuneSubject final : public tune::Subject {
public:
  struct Call {
    TegulaGridFn grid;
    void *user;
    TegulaLaunchOptions options;
  };
  TuneSubject(Ref<TegulaFunction> function, std::shared_ptr<const std::vector<TuneConfig>> configs,
              const TegulaArg *args, size_t count, const Call &call)
      : function_(std::move(function)), configs_(std::move(configs)), args_(args, count), call_(call),
        rehearsal_(*function_, function_->context->tuning.copyBytes) {}
  /// The class of the arguments, for messages.
  std::string given;
  /// Asks the caller for the grids of these configurations only, on the thread of the call.
  void prepare(const std::vector<size_t> &wanted) override;

  size_t count() const override { return configs_->size(); }
  std::string name(size_t i) const override { return (*configs_)[i].name; }
  std::vector<tune::Sketch> sketch(const std::vector<size_t> &wanted, unsigned threads) override;
  tune::Compiled compile(size_t i) override;
  runtime::Status run(size_t i, void *stream) override;

private:
  tune::Sketch sketchOne(size_t i);
  TegulaFunction &functionOf(const TuneConfig &c) const { return c.function ? *c.function : *function_; }
  Ref<TegulaFunction> function_;
  std::shared_ptr<const std::vector<TuneConfig>> configs_;
  struct GridOf {
    runtime::Status status;
    int64_t extents[3] = {1, 1, 1};
  };
  const GridOf &gridFor(size_t i);
  OwnedArgs args_;
  Call call_;
  Rehearsal rehearsal_;
  std::vector<std::optional<GridOf>> grids_; // one for each configuration
};

/// The thread's last error as a Status.
runtime::Status lastStatus();
/// Asks the caller for a configuration's grid. False: the last error is set.
bool gridOf(const TegulaFunction &f, const TuneConfig &config, TegulaGridFn grid, void *user, int64_t out[3]);

/// The memory behind a kernel's pointer arguments, for a call with `args`; the call's options are those of the launch.
std::vector<tune::Buffer> buffersOf(TegulaFunction &f, const TegulaKernel &k, const TegulaArg *args, size_t count,
                                    const TegulaLaunchOptions &options);

} // namespace tegula::api
