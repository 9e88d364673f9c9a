// The interface by which gdb and lldb find code generated at run time: a linked list in memory and a function with a
// breakpoint.
#pragma once
#include <cstddef>

namespace tegula::runtime {

/// Announces an ELF image that must not move until gdbUnregister. Thread-safe. Returns a handle.
void *gdbRegister(const char *image, size_t size);
void gdbUnregister(void *handle);

} // namespace tegula::runtime
