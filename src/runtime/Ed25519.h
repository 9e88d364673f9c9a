// Signatures of bundles: Ed25519 of libsodium, which is opened at run time, and only if a key is given. So programs
// without keys do not need the library, the runtime stays small, and it gets a distribution's security updates
// (docs/bundle.md).
#pragma once
#include "runtime/Bundle.h"

namespace tegula::runtime {

/// UNSUPPORTED: there is no libsodium ($TEGULA_LIBSODIUM names a file to use instead of the system's).
Status makeKeys(PublicKey &publicKey, SecretKey &secretKey);
Status signMessage(std::string_view message, const SecretKey &key, std::array<uint8_t, 64> &signature);
/// `valid`: was the message signed with the secret key of this public key?
Status checkSignature(std::string_view message, const std::array<uint8_t, 64> &signature, const PublicKey &key,
                      bool &valid);

/// Keys as text in files: hexadecimal digits and a newline. False: the text is not a key.
bool parseKey(std::string_view text, std::span<uint8_t> key);
std::string keyText(std::span<const uint8_t> key);

} // namespace tegula::runtime
