// See StageVerifier.h.
#include "ir/StageVerifier.h"
#include "ir/Diagnostics.h"

namespace tegula::ir {

bool StageVerifier::verified(const Module &m, const char *stage) const {
  std::string why;
  Loc where;
  if (verify(m, &why, &where))
    return true;
  diag_->report(diag::malformedIr, where, stage, why);
  return false;
}

} // namespace tegula::ir
