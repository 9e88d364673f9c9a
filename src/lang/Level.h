// Levels of the language: which rules apply where versions of Triton differ silently (docs/differences.md has the
// list). A launch selects one (language_level, $TEGULA_TRITON_LEVEL); the latest is the default. Syntax and functions
// that a later version added exist at every level.
#pragma once
#include <cstdint>

namespace tegula::lang {

enum class Level : uint8_t { v36 = 36, v37 = 37, v39 = 39 };
constexpr Level latestLevel = Level::v39;

} // namespace tegula::lang
