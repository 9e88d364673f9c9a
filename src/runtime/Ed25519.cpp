#include "runtime/Ed25519.h"
#include <cstdlib>
#include <dlfcn.h>

namespace tegula::runtime {

namespace {
/// Declarations of the part of libsodium in use (from its public documentation).
struct Sodium {
  int (*init)() = nullptr;
  int (*keypair)(unsigned char *pk, unsigned char *sk) = nullptr;
  int (*sign)(unsigned char *sig, unsigned long long *length, const unsigned char *m, unsigned long long n,
              const unsigned char *sk) = nullptr;
  int (*verify)(const unsigned char *sig, const unsigned char *m, unsigned long long n,
                const unsigned char *pk) = nullptr;
  std::string error;

  Sodium() {
    const char *named = std::getenv("TEGULA_LIBSODIUM");
    void *handle = nullptr;
    for (const char *name :
         {named ? named : "libsodium.so.23", named ? named : "libsodium.so.26", named ? named : "libsodium.so"})
      if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      error = std::string(named ? named : "libsodium") +
              " cannot be opened, which signatures of bundles need (Debian: apt-get install libsodium23)";
      return;
    }
    auto find = [&](auto &f, const char *name) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(handle, name));
      if (!f && error.empty()) error = std::string("libsodium has no ") + name;
    };
    find(init, "sodium_init"), find(keypair, "crypto_sign_ed25519_keypair");
    find(sign, "crypto_sign_ed25519_detached"), find(verify, "crypto_sign_ed25519_verify_detached");
    if (error.empty() && init() < 0) error = "libsodium cannot be initialized";
  }
};

/// The process's instance, never closed.
const Sodium &sodium() {
  static const Sodium &it = *new Sodium;
  return it;
}

Status usable() { return sodium().error.empty() ? Status::ok() : Status::error(TEGULA_UNSUPPORTED, sodium().error); }
const unsigned char *bytes(std::string_view s) { return reinterpret_cast<const unsigned char *>(s.data()); }
} // namespace

Status makeKeys(PublicKey &publicKey, SecretKey &secretKey) {
  if (Status s = usable(); !s) return s;
  sodium().keypair(publicKey.data(), secretKey.data());
  return Status::ok();
}

Status signMessage(std::string_view message, const SecretKey &key, std::array<uint8_t, 64> &signature) {
  if (Status s = usable(); !s) return s;
  unsigned long long n = 0;
  sodium().sign(signature.data(), &n, bytes(message), message.size(), key.data());
  return Status::ok();
}

Status checkSignature(std::string_view message, const std::array<uint8_t, 64> &signature, const PublicKey &key,
                      bool &valid) {
  if (Status s = usable(); !s) return s;
  valid = sodium().verify(signature.data(), bytes(message), message.size(), key.data()) == 0;
  return Status::ok();
}

bool parseKey(std::string_view text, std::span<uint8_t> key) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  if (text.size() != 2 * key.size()) return false;
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < key.size(); ++i) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

std::string keyText(std::span<const uint8_t> key) {
  std::string text;
  for (uint8_t b : key) text += "0123456789abcdef"[b >> 4], text += "0123456789abcdef"[b & 15];
  return text + "\n";
}

} // namespace tegula::runtime
