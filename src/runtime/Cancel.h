// The cancel word of one launch: a slot of the context's table while the launch runs.
#pragma once
#include "runtime/Launch.h"

namespace tegula::runtime {

class CancelWord {
public:
  explicit CancelWord(CancelTable &t) {
    static std::atomic<unsigned> nextStart{0};
    static thread_local unsigned start = nextStart.fetch_add(1, std::memory_order_relaxed);
    for (unsigned i = 0; i < CancelTable::slotCount; ++i) {
      std::atomic<int32_t> &w = t.slots_[(start + i) % CancelTable::slotCount].word;
      int32_t free = 2;
      if (w.compare_exchange_strong(free, 0, std::memory_order_relaxed)) {
        word_ = &w;
        return;
      }
    }
    word_ = &own_;
  }
  ~CancelWord() { word_->store(2, std::memory_order_relaxed); }
  CancelWord(const CancelWord &) = delete;
  void cancel() { word_->store(1, std::memory_order_relaxed); }
  const std::atomic<int32_t> &word() const { return *word_; }
  const volatile int32_t *address() const { return reinterpret_cast<const volatile int32_t *>(word_); }

private:
  std::atomic<int32_t> own_{0};
  std::atomic<int32_t> *word_;
};

} // namespace tegula::runtime
