// Kernels that a program wrote down as text (tegula_module_from_trace): the places of its own source, and its own
// names.
#pragma once
#include "support/Source.h"
#include "tegula/tegula.h"
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tegula::api {

/// What is wrong with the origins of a text of `length` bytes; empty: nothing.
std::string problemOf(std::span<const TegulaOrigin> origins, size_t length);

/// The text as a file with origins. Names that the trace made up, `_v` and a number after any further underscores,
/// become the names of the variables that the program declares or assigns at their origin, or else `at_line_N`;
/// functions, `_f` and a number, `lambda_at_line_N`. Each stays apart from every other name of the text.
std::shared_ptr<const SourceFile> tracedFile(std::string name, std::string_view text,
                                             std::span<const TegulaOrigin> origins);

} // namespace tegula::api
