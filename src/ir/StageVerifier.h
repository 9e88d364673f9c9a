// Verification between the stages of a compilation: names the stage that broke a rule, before a later stage fails.
#pragma once
#include "ir/Verifier.h"
#include "support/Diag.h"
#include <functional>
#include <string>

namespace tegula::ir {

/// Builds with assertions always verify after every stage.
#ifdef NDEBUG
inline constexpr bool verifiesAlways = false;
#else
inline constexpr bool verifiesAlways = true;
#endif

/// Input that reproduces the failure of a pass.
struct Reproducer {
  std::string options; // of tegula-opt, which also gets the file's name
  std::string text;    // the module before the pass
};

/// Called after each stage that creates or changes a module. A disabled verifier costs one branch. Used by the thread
/// of its DiagEngine, which must outlive it.
class StageVerifier {
public:
  /// Verifies nothing, in any build.
  StageVerifier() = default;
  /// Off, unless `on` or verifiesAlways. Reproducers go to files of `folder`, which is made where it is missing; "":
  /// none are written.
  StageVerifier(bool on, DiagEngine &diag, std::string folder = {})
      : diag_(on || verifiesAlways ? &diag : nullptr), folder_(std::move(folder)) {}

  /// False if `m`, the output of `stage` ("simplify"), breaks a rule of tile IR, or its text does not read back as the
  /// same module: diag::malformedIr has been reported at the operation, with the stage and the rule. Stages trust the
  /// rules, so no further stage may run on the module.
  bool check(const Module &m, const char *stage) const { return !diag_ || verified(m, stage, Level::Tile, nullptr); }
  /// The same for a pass of a level that tegula-opt has under this name. `reproducer` is called only if the pass broke
  /// a rule and reproducers are enabled; the message then names the file.
  bool check(const Module &m, const char *pass, Level level, const std::function<Reproducer()> &reproducer) const {
    return !diag_ || verified(m, pass, level, folder_.empty() ? nullptr : &reproducer);
  }
  bool writesReproducers() const { return diag_ && !folder_.empty(); }

private:
  bool verified(const Module &m, const char *stage, Level level, const std::function<Reproducer()> *reproducer) const;
  DiagEngine *diag_ = nullptr;
  std::string folder_;
};

} // namespace tegula::ir
