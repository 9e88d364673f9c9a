// The bytes of a cache entry: a fixed header, then the content, which the header's hash covers.
//
//   magic[8] version:u32 abi:u32 contentBytes:u64 key[32] sha256(content)[32] signature[32] | content: info, object,
//   properties
//
// An entry is written once and never changed. A reader accepts it only if every field, both lengths, the key and the
// hash are right, so a torn, truncated or corrupted file counts as missing. The signature is the HMAC of everything
// before it, with the secret of the user who wrote the entry: another user can write a file with a valid hash, but not
// with a valid signature.
#pragma once
#include "runtime/Kernel.h"
#include <array>

namespace tegula::runtime {

/// SHA-256 of everything that determines the entry.
using Digest = std::array<uint8_t, 32>;

struct CacheEntry {
  KernelInfo info;
  std::vector<char> object;
  /// Properties that the layer above needs again (target, signature, ...).
  std::vector<std::pair<std::string, std::string>> properties;
};

/// 32 random bytes.
using Secret = std::array<char, 32>;

std::vector<char> encodeEntry(const Digest &key, const CacheEntry &entry, const Secret &secret = {});
/// False: not an intact entry of this version for this key.
bool decodeEntry(std::span<const char> bytes, const Digest &key, CacheEntry &entry);
enum class EntryFormat : uint8_t { None, Other, Ours };
/// Are the bytes an entry, and of this version? Then `key` is the key that it claims.
EntryFormat formatOf(std::span<const char> bytes, Digest &key);
/// False: the bytes were not signed with this secret.
bool isSigned(std::span<const char> bytes, const Secret &secret);

} // namespace tegula::runtime
