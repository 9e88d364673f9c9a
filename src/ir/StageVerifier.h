// Verification between the stages of a compilation: names the stage that broke a rule, before a later one trips over
// it.
#pragma once
#include "ir/Verifier.h"
#include "support/Diag.h"
#include <functional>
#include <string>

namespace tegula::ir {

/// Builds with assertions verify after every stage whether they are asked to or not.
#ifdef NDEBUG
inline constexpr bool verifiesAlways = false;
#else
inline constexpr bool verifiesAlways = true;
#endif

/// What repeats a pass that broke a rule.
struct Reproducer {
  std::string options; // of tegula-opt, which also gets the file's name
  std::string text;    // the module before the pass
};

/// Asked after each stage that makes or changes a module. One that is off costs a branch. Used by the thread of its
/// DiagEngine, which must live as long.
class StageVerifier {
public:
  /// Verifies nothing, in any build.
  StageVerifier() = default;
  /// Off, unless `on` or verifiesAlways. Reproducers go to files of `folder`, which is made where it is missing; "":
  /// none are written.
  StageVerifier(bool on, DiagEngine &diag, std::string folder = {})
      : diag_(on || verifiesAlways ? &diag : nullptr), folder_(std::move(folder)) {}

  /// False if `m`, which `stage` ("simplify") has made, breaks a rule of tile IR, or is another module when its text is
  /// read back: diag::malformedIr has been reported at the operation, with the stage and the rule. Stages trust the
  /// rules, so that none may see the module then.
  bool check(const Module &m, const char *stage) const { return !diag_ || verified(m, stage, Level::Tile, nullptr); }
  /// The same for a pass of a level that tegula-opt knows by this name. `reproducer` is asked for only if the pass
  /// broke a rule and reproducers are wanted; the message then names the file.
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
