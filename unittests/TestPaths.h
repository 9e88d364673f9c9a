// Folders that tests read files from. Their text is in one object of a build (TestPaths.cpp, written by CMake) and not
// in flags or headers, which the compiler cache compares: every other object is found there from any clone.
#pragma once

namespace tegula {

/// Absolute, without a slash at the end; live for ever.
extern const char *const testSourceDir, *const testBinaryDir;

} // namespace tegula
