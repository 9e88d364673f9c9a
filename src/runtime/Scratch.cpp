// Per-thread scratch blocks over mmap.
#include "runtime/Scratch.h"
#include <cstdint>
#include <sys/mman.h>

namespace tegula::runtime {

static constexpr size_t page = 4096, hugePage = size_t(2) << 20, keepLimit = size_t(256) << 20;

static size_t roundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

/// Maps `bytes` (rounded up in place). Null on failure.
static void *mapBlock(size_t &bytes) {
  bool huge = bytes >= hugePage / 2;
  bytes = roundUp(bytes, huge ? hugePage : page);
  size_t mapped = bytes + (huge ? hugePage : 0);
  void *p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (!huge) return p;
  // Trim the mapping to the aligned part.
  uintptr_t begin = reinterpret_cast<uintptr_t>(p), aligned = roundUp(begin, hugePage);
  if (aligned != begin) munmap(p, aligned - begin);
  if (size_t tail = begin + mapped - (aligned + bytes)) munmap(reinterpret_cast<void *>(aligned + bytes), tail);
  madvise(reinterpret_cast<void *>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void *>(aligned);
}

namespace {
struct ThreadBlock {
  void *data = nullptr;
  size_t bytes = 0;
  uint64_t launch = 0; // the launch whose contents it has
  bool busy = false;
  void reset() {
    if (data) munmap(data, bytes);
    data = nullptr, bytes = 0;
  }
  ~ThreadBlock() { reset(); }
};
} // namespace

static thread_local ThreadBlock threadBlock;

ScratchLease::ScratchLease(size_t bytes, uint64_t launch) {
  if (bytes == 0) return;
  if (bytes > size_t(1) << 46) {
    failed_ = true;
    return;
  }
  ThreadBlock &t = threadBlock;
  if (t.busy) {
    own_ = bytes;
    data_ = mapBlock(own_);
    failed_ = !data_;
    return;
  }
  if (t.bytes < bytes) {
    t.reset();
    t.launch = 0;
    t.bytes = bytes;
    t.data = mapBlock(t.bytes);
    if (!t.data) {
      t.bytes = 0;
      failed_ = true;
      return;
    }
  }
  t.busy = leased_ = true;
  data_ = t.data;
  if (t.launch == 0 || t.launch != launch) *static_cast<uint64_t *>(data_) = 0;
  t.launch = launch;
}

ScratchLease::~ScratchLease() {
  if (own_ && data_) munmap(data_, own_);
  if (!leased_) return;
  threadBlock.busy = false;
  if (threadBlock.bytes > keepLimit) threadBlock.reset();
}

} // namespace tegula::runtime
