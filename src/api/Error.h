// The thread's last error: what the error functions of tegula.h read. Everything in it is owned text, so nothing of the
// compilation has to outlive the call that failed.
#pragma once
#include "runtime/Launch.h"
#include "support/Diag.h"
#include "tegula/tegula.h"

namespace tegula::api {

/// Records an error without diagnostics and gives its code back: `return fail(TEGULA_NOT_FOUND, "no kernel ...");`
TegulaStatus fail(TegulaStatus code, std::string text);
TegulaStatus fail(const runtime::Status &status);
/// Records the diagnostics of a compilation. With errors among them: records them as the last error too and gives
/// TEGULA_COMPILE_ERROR (TEGULA_INTERNAL_ERROR if the compiler is wrong itself), else `otherwise` (TEGULA_OK: success
/// with warnings).
TegulaStatus report(const DiagEngine &diag, TegulaStatus otherwise = TEGULA_OK);
/// Records a fault of a launch.
TegulaStatus fault(const runtime::KernelInfo &info, const TegulaCpuFault &f, std::string text);
/// A compilation that found out nothing new starts with no diagnostics.
void clearDiagnostics();
/// What a thread that waited for another one's compilation takes over.
struct Report;
std::shared_ptr<const Report> snapshot();
TegulaStatus adopt(const std::shared_ptr<const Report> &report);
/// "abc" with JSON's escapes and quotes.
std::string jsonString(std::string_view s);

} // namespace tegula::api
