// Reference counts, which keep handles alive.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace tegula::api {

/// Intrusive count; objects start with one reference.
struct RefCounted {
  std::atomic<uint32_t> references{1};
};
template <typename T> void retain(T *object) {
  if (object) object->references.fetch_add(1, std::memory_order_relaxed);
}
/// For an object that was found in a table whose lock the caller holds: null if its last reference is gone already.
template <typename T> T *retainIfAlive(T *object) {
  uint32_t n = object->references.load(std::memory_order_relaxed);
  while (n &&
         !object->references.compare_exchange_weak(n, n + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
  }
  return n ? object : nullptr;
}
template <typename T> void release(T *object) {
  if (object && object->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete object;
}
/// Shared owner of one reference.
template <typename T> class Ref {
public:
  Ref() = default;
  /// Adds a reference.
  explicit Ref(T *p) : p_(p) { retain(p); }
  Ref(const Ref &o) : Ref(o.p_) {}
  Ref(Ref &&o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref &operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { release(p_); }
  T *get() const { return p_; }
  T *operator->() const { return p_; }
  T &operator*() const { return *p_; }
  explicit operator bool() const { return p_; }

private:
  T *p_ = nullptr;
};

} // namespace tegula::api
