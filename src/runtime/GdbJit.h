// The interface by which gdb and lldb learn of code made at run time: a linked list in memory and a function to break
// on.
#pragma once
#include <cstddef>

namespace tegula::runtime {

/// Announces an ELF image that stays in place until gdbUnregister. Thread-safe. Returns a handle.
void *gdbRegister(const char *image, size_t size);
void gdbUnregister(void *handle);

} // namespace tegula::runtime
