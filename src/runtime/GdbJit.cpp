// Names and layout of the two symbols are fixed by gdb's manual ("JIT Compilation Interface"). They must be visible in
// the dynamic symbol table, because release builds are stripped.
#include "runtime/GdbJit.h"
#include <cstdint>
#include <mutex>

extern "C" {
struct JitCodeEntry {
  JitCodeEntry *next, *prev;
  const char *image;
  uint64_t size;
};
struct JitDescriptor {
  uint32_t version, action;
  JitCodeEntry *relevant, *first;
};
// Protected: each library that has its own pair must use that one; gdb reads all of them.
__attribute__((visibility("protected"), used)) JitDescriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
__attribute__((visibility("protected"), used, noinline)) void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
}

namespace tegula::runtime {

/// The list is one per process by gdb's design, hence the global lock.
static std::mutex &listMutex() {
  static auto *m = new std::mutex;
  return *m;
}

static void announce(uint32_t action, JitCodeEntry *entry) {
  __jit_debug_descriptor.action = action;
  __jit_debug_descriptor.relevant = entry;
  __jit_debug_register_code();
}

void *gdbRegister(const char *image, size_t size) {
  std::lock_guard lock(listMutex());
  auto *e = new JitCodeEntry{__jit_debug_descriptor.first, nullptr, image, size};
  if (e->next) e->next->prev = e;
  __jit_debug_descriptor.first = e;
  announce(1, e);
  return e;
}

void gdbUnregister(void *handle) {
  if (!handle) return;
  std::lock_guard lock(listMutex());
  auto *e = static_cast<JitCodeEntry *>(handle);
  (e->prev ? e->prev->next : __jit_debug_descriptor.first) = e->next;
  if (e->next) e->next->prev = e->prev;
  announce(2, e);
  delete e;
}

} // namespace tegula::runtime
