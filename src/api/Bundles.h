// Bundles as layers of a context: kernels that were compiled elsewhere and are used instead of a compilation.
//
// The class of a kernel is the meaning of its source (independent of the file's location), its name, its specialization
// and its options, without the target: docs/bundle.md.
#pragma once
#include "api/Compile.h"
#include "runtime/Bundle.h"

namespace tegula::api {

/// Thread-safe.
class BundleLayers {
public:
  /// Bundles are searched in the order in which they were added.
  void add(std::shared_ptr<const runtime::Bundle> bundle);
  std::vector<std::shared_ptr<const runtime::Bundle>> all() const;

private:
  mutable std::mutex mutex_; // only in a GateSection
  std::vector<std::shared_ptr<const runtime::Bundle>> layers_;
};

/// The key of the request's class. The request must have its name (CompileRequest::name).
runtime::Digest classKeyOf(const CompileRequest &r);
/// The class as bundles describe it; the KernelInfo is empty.
runtime::BundleRecord classOf(const CompileRequest &r);
/// A class as text, for messages: "x:*fp32:16, n:i32 for cpu:avx2, num_warps=4 ...".
std::string classText(const CompileRequest &r);
/// The features that a machine needs to run code for the target, as in runtime/BundleMachine.h.
std::string needsOf(const Target &t, bool isCubin);
/// The target that a bundle names for code compiled for `t`: a named target, which states what it needs, instead of
/// "this machine".
Target portable(const Target &t);
/// A compiled kernel as an entry. `root`: this prefix is cut from file names (no entry has an absolute path).
runtime::NewBundleEntry entryOf(const TegulaKernel &k, const CompileRequest &r, const std::string &root);

enum class BundleFit : uint8_t {
  Exact,  // of exactly this class
  General // of a class that assumes less
};
/// Fills info, object, specs and options of `k` from the best entry of the context's bundles that runs on the request's
/// device. False: there is none; damage is reported once on stderr and in `trouble`.
bool takeBundled(const CompileRequest &r, TegulaKernel &k, BundleFit fit, std::string &trouble);

/// May the kernel be compiled? True without no_jit; true with no_jit=warn, after a line on stderr. Otherwise sets the
/// last error, which names the kernel, its class and the nearest entry.
bool mayCompile(const CompileRequest &r, const std::string &trouble);

/// Cache layers of $TEGULA_CACHE_LAYERS: directories and archives (.tgb), separated by colons.
struct CacheLayers {
  std::vector<std::string> directories, archives;
  /// Skips empty items.
  void add(std::string_view list);
  void addOne(std::string item);
};
/// Opens the archives; reports those that cannot be used on stderr and skips them.
void openLayers(TegulaContext &c, const std::vector<std::string> &archives);

} // namespace tegula::api
