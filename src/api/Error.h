// The thread's last error, which the error functions of tegula.h read. It owns all its text, so nothing of the
// compilation has to outlive the call that failed.
#pragma once
#include "runtime/Launch.h"
#include "support/Diag.h"
#include "tegula/tegula.h"

namespace tegula::api {

/// Records an error without diagnostics and returns its code: `return fail(TEGULA_NOT_FOUND, "no kernel ...");`
TegulaStatus fail(TegulaStatus code, std::string text);
TegulaStatus fail(const runtime::Status &status);
/// Records the diagnostics of a compilation. With errors among them: also records them as the last error and returns
/// TEGULA_COMPILE_ERROR (TEGULA_INTERNAL_ERROR for a fault of the compiler itself). Otherwise returns `otherwise`
/// (TEGULA_OK: success with warnings).
TegulaStatus report(const DiagEngine &diag, TegulaStatus otherwise = TEGULA_OK);
/// Records a fault of a launch.
TegulaStatus fault(const runtime::KernelInfo &info, const TegulaCpuFault &f, std::string text);
/// Clears the diagnostics, for a compilation that starts or has nothing new to report.
void clearDiagnostics();
/// The error and diagnostics that a thread takes over after it waited for another thread's compilation.
struct Report;
std::shared_ptr<const Report> snapshot();
TegulaStatus adopt(const std::shared_ptr<const Report> &report);
/// "abc" with JSON's escapes and quotes.
std::string jsonString(std::string_view s);

} // namespace tegula::api
