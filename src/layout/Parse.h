// Reads the text of a layout that LinearLayout::print() writes.
#pragma once
#include "layout/LinearLayout.h"
#include <string_view>

namespace tegula::layout {

/// The layout of a tensor from its text, "register: (0,1) (8,0); lane: (0,2) ... -> dim0 16, dim1 8": inputs in the
/// order of the text, outputs dim0, dim1, ... which are kept in the canonical order (minor first). nullopt if the text
/// is malformed; `why` then says what was expected, and `at` is the position in the text.
std::optional<LinearLayout> parse(std::string_view text, std::string &why, size_t &at);

} // namespace tegula::layout
