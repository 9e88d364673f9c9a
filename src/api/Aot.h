// A bundle in the making: what is wanted, by class and target, then the compiled entries.
#pragma once
#include "api/Bundles.h"
#include "api/Closure.h"
#include <nlohmann/json.hpp>

namespace tegula::api {

/// One class of one kernel, for its targets.
struct AotJob {
  Ref<TegulaFunction> function;
  std::vector<sema::ParamSpec> specs;
  CompileOptions options;
  std::vector<Target> targets;
  std::string name; // of the kernel; "": the function's own
  std::string grid, where; // where: which part of a manifest asks for it, for messages
};

/// Classes of an argument: what a launch can find out about it and the compiler is told. The specialization that relies
/// on nothing comes last. `nulls`: of launches with null pointers (BoundCall::nulls).
std::vector<sema::ParamSpec> classesOf(const Param &p, const sema::ParamSpec &given, bool nulls = false);
/// What launches find out of their arguments that is no fact of a single one.
struct LaunchForm {
  bool wide = false;  // of some tensor an offset may need 64 bits
  bool nulls = false; // a pointer is null, on a CPU: checked, and wide
};
/// Those that launches with such arguments can ask for, the usual one first.
std::vector<LaunchForm> formsOf(const std::vector<sema::ParamSpec> &given, const CompileOptions &options);

/// All classes of one form.
class ClassList {
public:
  ClassList(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &given, bool nulls);
  /// By parameter.
  const std::vector<std::vector<sema::ParamSpec>> &each() const { return each_; }
  /// Pointers of one type, two or more: each may be the same buffer as another of its group.
  const std::vector<std::vector<size_t>> &groups() const { return groups_; }
  /// How many there are with buffers of their own, and with those in which parameters share one; UINT64_MAX: more than
  /// that.
  uint64_t distinct() const;
  uint64_t all() const;
  /// All combinations, most facts first.
  void addDistinct(size_t limit, std::vector<std::vector<sema::ParamSpec>> &out) const;
  /// Those in which parameters share a buffer that is not given as shared.
  void addMerged(size_t limit, std::vector<std::vector<sema::ParamSpec>> &out) const;

private:
  void make(size_t i, std::vector<sema::ParamSpec> &specs, std::vector<int> &aligned, bool merged, size_t limit,
            std::vector<std::vector<sema::ParamSpec>> &out) const;
  std::vector<sema::ParamSpec> given_;
  std::vector<std::vector<sema::ParamSpec>> each_;
  std::vector<std::vector<size_t>> groups_;
};

/// A manifest's parts into jobs. False: the last error is set.
bool readManifest(TegulaAot &aot, const std::string &path, const std::vector<Target> &targets, int32_t classes);
/// The same of its text; files are looked for beside `path`.
bool readManifestText(TegulaAot &aot, const std::string &path, std::string_view text,
                      const std::vector<Target> &targets, int32_t classes);
/// The text of a header; `name` is an identifier.
std::string headerOf(const std::vector<runtime::NewBundleEntry> &entries, const std::string &name);
/// Target names, or this machine's CPU if there are none. False: the last error is set.
bool targetsNamed(TegulaContext &c, const char *const *names, size_t count, std::vector<Target> &out);

} // namespace tegula::api

struct TegulaAot final : tegula::api::RefCounted {
  tegula::api::Ref<TegulaContext> context;
  std::vector<tegula::api::AotJob> jobs;
  size_t compiled = 0; // that many of the jobs
  uint32_t flags = 0;  // TEGULA_AOT_ANY_TARGET ...
  std::vector<std::string> leftOut; // what cannot be compiled, with the reason
  // by target: so many kernels were recorded for it, and no target that is asked for is of that kind
  std::map<std::string, size_t> ofOtherKinds;
  std::vector<tegula::runtime::NewBundleEntry> entries;
  std::vector<std::shared_ptr<const void>> keep; // closures and modules of manifests
  /// Queues the class and, as `classes` says, others of the kernel. False: the last error is set.
  bool add(tegula::api::AotJob job, int32_t classes);
};
