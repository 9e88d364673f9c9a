// Levels of the language: whose rules hold where versions of Triton differ without a word (docs/differences.md has the
// list). A launch says which (language_level, $TEGULA_TRITON_LEVEL); the latest is the default. Syntax and functions
// that a later version added are there at every level.
#pragma once
#include <cstdint>

namespace tegula::lang {

enum class Level : uint8_t { v36 = 36, v37 = 37, v39 = 39 };
constexpr Level latestLevel = Level::v39;

} // namespace tegula::lang
