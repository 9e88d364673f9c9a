// The reader's checks live here, in one place: every access goes through take().
#include "support/ByteStream.h"

namespace tegula {

void ByteWriter::u8(uint8_t v) { bytes.push_back(static_cast<char>(v)); }
void ByteWriter::str(const std::string &s) {
  u64(s.size());
  raw(s.data(), s.size());
}
void ByteWriter::raw(const void *p, size_t n) {
  auto *c = static_cast<const char *>(p);
  bytes.insert(bytes.end(), c, c + n);
}

const char *ByteReader::take(size_t n) {
  if (failed_ || n > static_cast<size_t>(end_ - p_)) {
    failed_ = true;
    return nullptr;
  }
  const char *p = p_;
  p_ += n;
  return p;
}

void ByteReader::raw(void *out, size_t n) {
  if (const char *p = take(n)) std::memcpy(out, p, n);
  else std::memset(out, 0, n);
}

uint8_t ByteReader::u8() { uint8_t v; raw(&v, 1); return v; }
bool ByteReader::flag() {
  uint8_t v = u8();
  failed_ |= v > 1;
  return v == 1;
}
uint32_t ByteReader::u32() { uint32_t v; raw(&v, 4); return v; }
uint64_t ByteReader::u64() { uint64_t v; raw(&v, 8); return v; }

std::string ByteReader::str() {
  uint64_t n = u64();
  const char *p = take(n);
  return p ? std::string(p, n) : std::string();
}

std::vector<char> ByteReader::blob() {
  uint64_t n = u64();
  const char *p = take(n);
  return p ? std::vector<char>(p, p + n) : std::vector<char>();
}

size_t ByteReader::count(size_t minBytes) {
  uint64_t n = u64();
  if (failed_ || n > static_cast<uint64_t>(end_ - p_) / minBytes) {
    failed_ = true;
    return 0;
  }
  return n;
}

} // namespace tegula
