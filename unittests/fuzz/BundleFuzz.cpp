// Bundles as the runtime reads them: the file as it is, and with its hashes made right, so that the fuzzer gets past
// them to the index, the records and the code.
#include "runtime/Bundle.h"
#include "runtime/BundleMatch.h"
#include "support/Hash.h"
#include <cstring>

using namespace tegula::runtime;

static constexpr size_t indexAt = Bundle::headerBytes;

static void hashInto(std::vector<char> &bytes, size_t at, size_t from, size_t size) {
  Digest d = tegula::Hasher().update({bytes.data() + from, size}).digest();
  std::memcpy(bytes.data() + at, d.data(), d.size());
}

/// Makes the header fit: length of the file, of the index, both hashes.
static void mend(std::vector<char> &bytes) {
  uint64_t size = bytes.size(), index;
  std::memcpy(bytes.data() + 16, &size, 8);
  std::memcpy(&index, bytes.data() + 24, 8);
  uint64_t room = size - indexAt, padded = (index + Bundle::grain - 1) / Bundle::grain * Bundle::grain;
  if (index > room || padded > room)
    padded = index = room / Bundle::grain * Bundle::grain, std::memcpy(bytes.data() + 24, &index, 8);
  hashInto(bytes, 40, indexAt, padded);
  hashInto(bytes, Bundle::headerBytes - 32, 0, Bundle::headerBytes - 32);
}

static void use(const Bundle &b) {
  static const TegulaArg args[] = {tegula_int(3), tegula_float(1), tegula_ptr(nullptr, TEGULA_FP32, -1)};
  for (size_t i = 0; i < b.entries().size() && i < 64; ++i) {
    BundleRecord record;
    std::vector<char> code;
    BundleCall call;
    std::string why;
    if (b.record(i, record))
      (void)fits(record, args, 3, call, &why), (void)covers(record, record), (void)factsOf(record);
    Status status;
    if (b.code(i, code)) (void)LoadedObject::load(code, status);
  }
  (void)b.checkAll();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<char> bytes(data, data + size);
  Status status;
  if (auto b = Bundle::of(bytes, "fuzz", nullptr, status)) use(*b);
  if (size < Bundle::headerBytes + 8) return 0;
  mend(bytes);
  auto b = Bundle::of(bytes, "fuzz", nullptr, status);
  if (!b) return 0;
  use(*b);
  // Records and code after their hashes: the first of each made right in the index, which moves the other hashes on.
  std::vector<BundleEntry> entries = b->entries();
  for (const BundleEntry &e : entries) {
    for (auto [offset, length, hash] : {std::tuple(e.recordOffset, e.recordBytes, &e.recordHash),
                                        std::tuple(e.codeOffset, e.codeBytes, &e.codeHash)}) {
      auto *found =
          static_cast<char *>(memmem(bytes.data() + indexAt, bytes.size() - indexAt, hash->data(), hash->size()));
      if (found)
        hashInto(bytes, static_cast<size_t>(found - bytes.data()), offset,
                 (length + Bundle::grain - 1) / Bundle::grain * Bundle::grain);
    }
  }
  mend(bytes);
  if (auto again = Bundle::of(bytes, "fuzz", nullptr, status)) use(*again);
  return 0;
}
