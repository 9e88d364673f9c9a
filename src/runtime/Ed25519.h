// Signatures of bundles: Ed25519 of libsodium, which is opened at run time and only where a key is given. So programs
// that use no key need no such library, the runtime stays small, and a distribution's security updates reach it
// (docs/bundle.md).
#pragma once
#include "runtime/Bundle.h"

namespace tegula::runtime {

/// UNSUPPORTED: there is no libsodium ($TEGULA_LIBSODIUM names a file in place of the system's).
Status makeKeys(PublicKey &publicKey, SecretKey &secretKey);
Status signMessage(std::string_view message, const SecretKey &key, std::array<uint8_t, 64> &signature);
/// `valid`: was the message signed with the key that belongs to this one?
Status checkSignature(std::string_view message, const std::array<uint8_t, 64> &signature, const PublicKey &key,
                      bool &valid);

/// Keys as files have them: hexadecimal digits and a newline. False: they are none.
bool parseKey(std::string_view text, std::span<uint8_t> key);
std::string keyText(std::span<const uint8_t> key);

} // namespace tegula::runtime
