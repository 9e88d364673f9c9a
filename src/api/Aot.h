// A bundle under construction: the classes and targets to compile, then the compiled entries.
#pragma once
#include "api/Bundles.h"
#include "api/Closure.h"
#include <nlohmann/json.hpp>

namespace tegula::api {

/// One class of one kernel, to compile for each of its targets.
struct AotJob {
  Ref<TegulaFunction> function;
  std::vector<sema::ParamSpec> specs;
  CompileOptions options;
  std::vector<Target> targets;
  std::string name; // of the kernel; "": the function's own name
  std::string grid, where; // where: the part of a manifest that asks for it, for messages
};

/// The classes of one argument: the facts that a launch can establish and pass to the compiler. The class that assumes
/// nothing comes last. `nulls`: for launches with null pointers (BoundCall::nulls).
std::vector<sema::ParamSpec> classesOf(const Param &p, const sema::ParamSpec &given, bool nulls = false);
/// Facts about a launch that concern no single argument.
struct LaunchForm {
  bool wide = false;  // an offset into some tensor may need 64 bits
  bool nulls = false; // a pointer is null, on a CPU: the kernel is checked, and wide
};
/// The forms that launches with these arguments can ask for, the usual one first.
std::vector<LaunchForm> formsOf(const std::vector<sema::ParamSpec> &given, const CompileOptions &options);

/// All classes of one form.
class ClassList {
public:
  ClassList(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &given, bool nulls);
  /// The classes of each parameter.
  const std::vector<std::vector<sema::ParamSpec>> &each() const { return each_; }
  /// Groups of two or more pointers of one type: a pointer may be the same buffer as another of its group.
  const std::vector<std::vector<size_t>> &groups() const { return groups_; }
  /// The number of classes in which every parameter has a buffer of its own, and the number of all classes, those with
  /// shared buffers included. UINT64_MAX: more than fit.
  uint64_t distinct() const;
  uint64_t all() const;
  /// Appends all combinations of distinct buffers, those with most facts first.
  void addDistinct(size_t limit, std::vector<std::vector<sema::ParamSpec>> &out) const;
  /// Appends the combinations in which parameters share a buffer that is not given as shared.
  void addMerged(size_t limit, std::vector<std::vector<sema::ParamSpec>> &out) const;

private:
  void make(size_t i, std::vector<sema::ParamSpec> &specs, std::vector<int> &aligned, bool merged, size_t limit,
            std::vector<std::vector<sema::ParamSpec>> &out) const;
  std::vector<sema::ParamSpec> given_;
  std::vector<std::vector<sema::ParamSpec>> each_;
  std::vector<std::vector<size_t>> groups_;
};

/// Turns the parts of a manifest into jobs. False: the last error is set.
bool readManifest(TegulaAot &aot, const std::string &path, const std::vector<Target> &targets, int32_t classes);
/// The same from the manifest's text; files are searched for beside `path`.
bool readManifestText(TegulaAot &aot, const std::string &path, std::string_view text,
                      const std::vector<Target> &targets, int32_t classes);
/// The text of a C header; `name` is an identifier.
std::string headerOf(const std::vector<runtime::NewBundleEntry> &entries, const std::string &name);
/// The targets of these names, or this machine's CPU if there are none. False: the last error is set.
bool targetsNamed(TegulaContext &c, const char *const *names, size_t count, std::vector<Target> &out);

} // namespace tegula::api

struct TegulaAot final : tegula::api::RefCounted {
  tegula::api::Ref<TegulaContext> context;
  std::vector<tegula::api::AotJob> jobs;
  size_t compiled = 0; // the first `compiled` jobs are compiled
  uint32_t flags = 0;  // TEGULA_AOT_ANY_TARGET ...
  std::vector<std::string> leftOut; // kernels that cannot be compiled, with the reason
  // by target: the number of kernels recorded for it, where no requested target is of its kind
  std::map<std::string, size_t> ofOtherKinds;
  std::vector<tegula::runtime::NewBundleEntry> entries;
  std::vector<std::shared_ptr<const void>> keep; // closures and modules of manifests, kept alive
  /// Queues the class and, as `classes` says, further classes of the kernel. False: the last error is set.
  bool add(tegula::api::AotJob job, int32_t classes);
};
