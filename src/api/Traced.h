// Kernels that a program wrote as text (tegula_module_from_trace): maps the text to places in the program's source, and
// restores the program's names.
#pragma once
#include "support/Source.h"
#include "tegula/tegula.h"
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tegula::api {

/// The fault in the origins of a text of `length` bytes; empty: there is none.
std::string problemOf(std::span<const TegulaOrigin> origins, size_t length);

/// The text as a file with origins. Renames the trace's own names. `_v` and a number, after any further underscores,
/// becomes the variable that the program declares or assigns at the origin, or else `at_line_N`. A function, `_f` and a
/// number, becomes `lambda_at_line_N`. Each name stays distinct from every other name of the text.
std::shared_ptr<const SourceFile> tracedFile(std::string name, std::string_view text,
                                             std::span<const TegulaOrigin> origins);

} // namespace tegula::api
