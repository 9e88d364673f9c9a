// Encoding and decoding of cache entries; change `formatVersion` with any change of content.
#include "runtime/CacheFile.h"
#include "support/Hash.h"

namespace tegula::runtime {

static constexpr char magic[8] = {'t', 'e', 'g', 'u', 'l', 'a', 'K', '\n'};
static constexpr uint32_t formatVersion = 10;
static Digest sha256(const char *data, size_t size) { return Hasher().update({data, size}).digest(); }

static constexpr size_t signedBytes = 8 + 4 + 4 + 8 + 32 + 32, headerBytes = signedBytes + 32;

static Digest sign(const char *header, const Secret &secret) {
  return hmacSha256({secret.data(), secret.size()}, {header, signedBytes});
}

std::vector<char> encodeEntry(const Digest &key, const CacheEntry &entry, const Secret &secret) {
  ByteWriter content;
  write(content, entry.info);
  content.u64(entry.object.size());
  content.raw(entry.object.data(), entry.object.size());
  content.u64(entry.properties.size());
  for (const auto &[name, value] : entry.properties) content.str(name), content.str(value);

  ByteWriter file;
  file.raw(magic, sizeof magic);
  file.u32(formatVersion);
  file.u32(TEGULA_CPU_ABI_VERSION);
  file.u64(content.bytes.size());
  file.raw(key.data(), key.size());
  Digest hash = sha256(content.bytes.data(), content.bytes.size());
  file.raw(hash.data(), hash.size());
  Digest signature = sign(file.bytes.data(), secret);
  file.raw(signature.data(), signature.size());
  file.raw(content.bytes.data(), content.bytes.size());
  return std::move(file.bytes);
}

bool decodeEntry(std::span<const char> bytes, const Digest &key, CacheEntry &entry) {
  ByteReader header(bytes.data(), bytes.size());
  char m[8];
  Digest fileKey, hash, signature;
  header.raw(m, sizeof m);
  uint32_t version = header.u32(), abi = header.u32();
  uint64_t size = header.u64();
  header.raw(fileKey.data(), fileKey.size());
  header.raw(hash.data(), hash.size());
  header.raw(signature.data(), signature.size());
  if (header.failed() || std::memcmp(m, magic, sizeof m) != 0 || version != formatVersion ||
      abi != TEGULA_CPU_ABI_VERSION || size != bytes.size() - headerBytes || fileKey != key ||
      sha256(bytes.data() + headerBytes, size) != hash)
    return false;
  ByteReader r(bytes.data() + headerBytes, size);
  if (!read(r, entry.info)) return false;
  entry.object = r.blob();
  entry.properties.resize(r.count(16));
  for (auto &[name, value] : entry.properties) name = r.str(), value = r.str();
  return !r.failed() && r.atEnd();
}

EntryFormat formatOf(std::span<const char> bytes, Digest &key) {
  ByteReader header(bytes.data(), bytes.size());
  char m[8];
  header.raw(m, sizeof m);
  uint32_t version = header.u32(), abi = header.u32();
  header.u64();
  if (header.failed() || std::memcmp(m, magic, sizeof m) != 0) return EntryFormat::None;
  if (version != formatVersion || abi != TEGULA_CPU_ABI_VERSION) return EntryFormat::Other;
  header.raw(key.data(), key.size());
  return header.failed() ? EntryFormat::None : EntryFormat::Ours;
}

bool isSigned(std::span<const char> bytes, const Secret &secret) {
  if (bytes.size() < headerBytes) return false;
  Digest signature;
  std::memcpy(signature.data(), bytes.data() + signedBytes, signature.size());
  return sameDigest(signature, sign(bytes.data(), secret));
}

} // namespace tegula::runtime
