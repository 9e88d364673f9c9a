// Verification between the stages of a compilation: names the stage that broke a rule, before a later one trips over it.
#pragma once
#include "ir/Verifier.h"
#include "support/Diag.h"

namespace tegula::ir {

/// Builds with assertions verify after every stage whether they are asked to or not.
#ifdef NDEBUG
inline constexpr bool verifiesAlways = false;
#else
inline constexpr bool verifiesAlways = true;
#endif

/// Asked after each stage that makes or changes a module. One that is off costs a branch. Used by the thread of its DiagEngine, which must
/// live as long.
class StageVerifier {
public:
  /// Verifies nothing, in any build.
  StageVerifier() = default;
  /// Off, unless `on` or verifiesAlways.
  StageVerifier(bool on, DiagEngine &diag) : diag_(on || verifiesAlways ? &diag : nullptr) {}

  /// False if `m`, which `stage` ("simplify") has made, breaks a rule: diag::malformedIr has been reported at the operation, with the stage and
  /// the rule. Stages trust the rules, so that none may see the module then.
  bool check(const Module &m, const char *stage) const { return !diag_ || verified(m, stage); }

private:
  bool verified(const Module &m, const char *stage) const;
  DiagEngine *diag_ = nullptr;
};

} // namespace tegula::ir
