// Cache entries as the runtime reads them: the file as it is, and its content with the hash made right, so that the
// fuzzer gets past it.
#include "runtime/CacheFile.h"
#include "support/Hash.h"
#include <cstring>

using namespace tegula::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<char> bytes(data, data + size);
  Digest key{};
  CacheEntry entry;
  (void)decodeEntry(bytes, key, entry);
  constexpr size_t header = 120, signature = 88;
  if (size >= header) {
    uint64_t n = size - header;
    std::memcpy(bytes.data() + 16, &n, 8);
    std::memset(bytes.data() + 24, 0, 32);
    Digest hash = tegula::Hasher().update({bytes.data() + header, n}).digest();
    std::memcpy(bytes.data() + 56, hash.data(), 32);
    CacheEntry again;
    if (decodeEntry(bytes, key, again)) {
      // What was read is written the same.
      std::vector<char> written = encodeEntry(key, again);
      std::memcpy(written.data() + signature, bytes.data() + signature, header - signature);
      if (written != bytes) __builtin_trap();
      Status status;
      (void)LoadedObject::load(again.object, status);
    }
  }
  return 0;
}
