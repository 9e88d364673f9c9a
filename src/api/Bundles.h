// Bundles as layers of a context: kernels that were compiled elsewhere, taken where a compilation would begin.
//
// A kernel's class is what its source does (wherever its file lies), its name, its specialization and its options,
// without the target: docs/bundle.md.
#pragma once
#include "api/Compile.h"
#include "runtime/Bundle.h"

namespace tegula::api {

/// Thread-safe.
class BundleLayers {
public:
  /// Later ones are asked after earlier ones.
  void add(std::shared_ptr<const runtime::Bundle> bundle);
  std::vector<std::shared_ptr<const runtime::Bundle>> all() const;

private:
  mutable std::mutex mutex_; // only in a GateSection
  std::vector<std::shared_ptr<const runtime::Bundle>> layers_;
};

/// The request must have its name (CompileRequest::name).
runtime::Digest classKeyOf(const CompileRequest &r);
/// What a class is, as bundles describe it; its KernelInfo is empty.
runtime::BundleRecord classOf(const CompileRequest &r);
/// "x:*fp32:16, n:i32 for cpu:avx2, num_warps=4 ...": of a class, for messages.
std::string classText(const CompileRequest &r);
/// What a machine must have to run code for the target: the words of runtime/BundleMachine.h.
std::string needsOf(const Target &t, bool isCubin);
/// The target of a bundle for code that is wanted for `t`: a named one, which says what it needs, in place of "this
/// machine".
Target portable(const Target &t);
/// A compiled kernel as an entry. `root`: names of files that begin with this are cut (no entry has an absolute path).
runtime::NewBundleEntry entryOf(const TegulaKernel &k, const CompileRequest &r, const std::string &root);

enum class BundleFit : uint8_t {
  Exact,  // of just this class
  General // of one that relies on less
};
/// Fills info, object, specs and options of `k` in from the best entry of the context's bundles that runs on the
/// request's device. False: there is none; what is damaged is told once on stderr and in `trouble`.
bool takeBundled(const CompileRequest &r, TegulaKernel &k, BundleFit fit, std::string &trouble);

/// May the kernel be compiled? True without no_jit; with no_jit=warn after a line on stderr. Else the last error is
/// set: it names kernel and class, and what comes nearest.
bool mayCompile(const CompileRequest &r, const std::string &trouble);

/// Cache layers of $TEGULA_CACHE_LAYERS: directories and archives (.tgb), separated by colons.
struct CacheLayers {
  std::vector<std::string> directories, archives;
  /// Items that are empty are left out.
  void add(std::string_view list);
  void addOne(std::string item);
};
/// Opens the archives; what cannot be used is told on stderr and left out.
void openLayers(TegulaContext &c, const std::vector<std::string> &archives);

} // namespace tegula::api
