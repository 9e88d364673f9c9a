// The context switch saves what the calling convention makes a function keep (x86-64: rbx, rbp, r12-r15; AArch64:
// x19-x30, d8-d15) on the old stack and takes the same from the new one. A new stack is laid out as if it had been
// switched away from.
#include "sim/Fiber.h"
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEGULA_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TEGULA_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define TEGULA_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define TEGULA_TSAN 1
#endif
#ifdef TEGULA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TEGULA_TSAN
#include <sanitizer/tsan_interface.h>
#endif

extern "C" {
void tegulaSimSwitchStacks(void **saveSp, void *newSp);
void tegulaSimFiberStart();
[[gnu::visibility("hidden"), gnu::used]] void tegulaSimFiberMain(void (*start)(void *), void *arg);
}

#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .globl tegulaSimSwitchStacks
  .hidden tegulaSimSwitchStacks
  .type tegulaSimSwitchStacks, @function
tegulaSimSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
  .size tegulaSimSwitchStacks, .-tegulaSimSwitchStacks
  .p2align 4
  .globl tegulaSimFiberStart
  .hidden tegulaSimFiberStart
  .type tegulaSimFiberStart, @function
tegulaSimFiberStart:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  movq %r13, %rsi
  callq tegulaSimFiberMain
  ud2
  .cfi_endproc
  .size tegulaSimFiberStart, .-tegulaSimFiberStart
)");
static constexpr size_t savedWords = 7; // r15 r14 r13 r12 rbx rbp, return address
static void layOut(void **sp, void (*start)(void *), void *arg) {
  std::memset(sp, 0, savedWords * sizeof(void *));
  sp[3] = reinterpret_cast<void *>(start); // r12
  sp[2] = arg;                             // r13
  sp[6] = reinterpret_cast<void *>(&tegulaSimFiberStart);
}
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .globl tegulaSimSwitchStacks
  .hidden tegulaSimSwitchStacks
  .type tegulaSimSwitchStacks, %function
tegulaSimSwitchStacks:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size tegulaSimSwitchStacks, .-tegulaSimSwitchStacks
  .p2align 4
  .globl tegulaSimFiberStart
  .hidden tegulaSimFiberStart
  .type tegulaSimFiberStart, %function
tegulaSimFiberStart:
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x19
  mov x1, x20
  bl tegulaSimFiberMain
  brk #0
  .cfi_endproc
  .size tegulaSimFiberStart, .-tegulaSimFiberStart
)");
static constexpr size_t savedWords = 20;
static void layOut(void **sp, void (*start)(void *), void *arg) {
  std::memset(sp, 0, savedWords * sizeof(void *));
  sp[0] = reinterpret_cast<void *>(start); // x19
  sp[1] = arg;                             // x20
  sp[11] = reinterpret_cast<void *>(&tegulaSimFiberStart);
}
#else
#error the simulator has no context switch for this processor
#endif

namespace tegula::sim {

/// The context that the running one was switched from; needed only to learn the bounds of the host's stack.
[[maybe_unused]] static thread_local Context *leftContext = nullptr;

static void arrived(Context &self) {
#ifdef TEGULA_ASAN
  const void *bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(self.fakeStack, &bottom, &bytes);
  if (leftContext && !leftContext->stackBottom)
    leftContext->stackBottom = bottom, leftContext->stackBytes = bytes;
#endif
}

void switchContext(Context &from, Context &to, bool forGood) {
#ifdef TEGULA_ASAN
  leftContext = &from;
  __sanitizer_start_switch_fiber(forGood ? nullptr : &from.fakeStack, to.stackBottom, to.stackBytes);
#endif
#ifdef TEGULA_TSAN
  if (!from.tsanFiber)
    from.tsanFiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsanFiber, 0);
#endif
  tegulaSimSwitchStacks(&from.sp, to.sp);
  arrived(from);
}

struct Start {
  void (*start)(void *);
  void *arg;
  Context *self;
};

void Context::prepare(void *bottom, size_t bytes, size_t skew, void (*start)(void *), void *arg) {
#ifdef TEGULA_ASAN
  // Frames of a fiber that was abandoned on this stack left their marks.
  ASAN_UNPOISON_MEMORY_REGION(bottom, bytes);
#endif
  dispose();
#ifdef TEGULA_TSAN
  tsanFiber = __tsan_create_fiber(0);
#endif
  stackBottom = bottom;
  stackBytes = bytes;
  fakeStack = nullptr;
  uintptr_t top = (reinterpret_cast<uintptr_t>(bottom) + bytes - skew) & ~uintptr_t(15);
  Start *s = reinterpret_cast<Start *>(top - 64);
  *s = {start, arg, this};
  // The start routine is entered by `ret` with the stack aligned to 16, and makes the first call itself.
  void **frame = reinterpret_cast<void **>(top - 64) - savedWords;
  layOut(
      frame,
      [](void *p) {
        Start s = *static_cast<Start *>(p);
        arrived(*s.self);
        s.start(s.arg);
      },
      s);
  sp = frame;
}

void Context::dispose() {
#ifdef TEGULA_TSAN
  if (tsanFiber)
    __tsan_destroy_fiber(tsanFiber);
#endif
  tsanFiber = nullptr;
}

StackSlab::StackSlab(size_t count, size_t stackBytes) : count_(count) {
  guardBytes_ = size_t(sysconf(_SC_PAGESIZE));
  stackBytes_ = (stackBytes + guardBytes_ - 1) / guardBytes_ * guardBytes_;
  size_t total = count_ * (stackBytes_ + guardBytes_);
  void *p = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return;
  base_ = static_cast<char *>(p);
#ifdef MADV_NOHUGEPAGE
  madvise(p, total, MADV_NOHUGEPAGE); // a huge page per stack would be zeroed whole
#endif
  for (size_t i = 0; i < count_; ++i)
    mprotect(base_ + i * (stackBytes_ + guardBytes_), guardBytes_, PROT_NONE);
}

StackSlab::~StackSlab() {
  if (base_)
    munmap(base_, count_ * (stackBytes_ + guardBytes_));
}

} // namespace tegula::sim

void tegulaSimFiberMain(void (*start)(void *), void *arg) { start(arg); }
