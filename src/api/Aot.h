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

/// Classes of an argument: what a launch can find out about it and the compiler is told. The specialization that relies on nothing comes last.
std::vector<sema::ParamSpec> classesOf(const Param &p, const sema::ParamSpec &given);
/// The last of each.
std::vector<sema::ParamSpec> genericOf(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &given);
/// All combinations, most facts first. False: there are more than `limit`; `count` is their number in any case.
bool allClasses(const std::vector<Param> &params, const std::vector<sema::ParamSpec> &given, size_t limit, std::vector<std::vector<sema::ParamSpec>> &out, uint64_t &count);

/// A manifest's parts into jobs. False: the last error is set.
bool readManifest(TegulaAot &aot, const std::string &path, const std::vector<Target> &targets, int32_t classes);
/// The same of its text; files are looked for beside `path`.
bool readManifestText(TegulaAot &aot, const std::string &path, std::string_view text, const std::vector<Target> &targets, int32_t classes);
/// The text of a header; `name` is an identifier.
std::string headerOf(const std::vector<runtime::NewBundleEntry> &entries, const std::string &name);
/// Target names, or this machine's CPU if there are none. False: the last error is set.
bool targetsNamed(TegulaContext &c, const char *const *names, size_t count, std::vector<Target> &out);

} // namespace tegula::api

struct TegulaAot final : tegula::api::RefCounted {
  tegula::api::Ref<TegulaContext> context;
  std::vector<tegula::api::AotJob> jobs;
  size_t compiled = 0; // so many of the jobs
  std::vector<tegula::runtime::NewBundleEntry> entries;
  std::vector<std::shared_ptr<const void>> keep; // closures and modules of manifests
  /// Queues the class and, as `classes` says, others of the kernel. False: the last error is set.
  bool add(tegula::api::AotJob job, int32_t classes);
};
