// Little-endian writer and bounds-checked reader of flat binary records (cache entries, bundles).
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tegula {

class ByteWriter {
public:
  void u8(uint8_t v);
  void u32(uint32_t v) { raw(&v, 4); }
  void u64(uint64_t v) { raw(&v, 8); }
  void str(const std::string &s);
  void raw(const void *p, size_t n);
  std::vector<char> bytes;
};

/// A read past the end, or a count that the rest cannot hold, sets `failed`; all values read from then on are 0 or
/// empty.
class ByteReader {
public:
  ByteReader(const char *data, size_t size) : p_(data), end_(data + size) {}
  bool failed() const { return failed_; }
  bool atEnd() const { return p_ == end_; }
  /// Bytes not yet read.
  size_t left() const { return static_cast<size_t>(end_ - p_); }
  uint8_t u8();
  /// A byte that must be 0 or 1.
  bool flag();
  uint32_t u32();
  uint64_t u64();
  std::string str();
  std::vector<char> blob();
  void raw(void *out, size_t n);
  /// Number of records that follow, each at least `minBytes` long: never more than the rest can hold.
  size_t count(size_t minBytes);

private:
  const char *take(size_t n);
  const char *p_, *end_;
  bool failed_ = false;
};

} // namespace tegula
