// SHA-256 against the examples of FIPS 180-4 / NIST's CAVP.
#include "support/Hash.h"
#include <gtest/gtest.h>

using namespace tegula;

TEST(Hash, knownDigests) {
  EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256Hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static std::string hmacHex(std::string_view key, std::string_view text) {
  std::string out;
  for (uint8_t b : hmacSha256(key, text)) (out += "0123456789abcdef"[b >> 4]) += "0123456789abcdef"[b & 15];
  return out;
}

// RFC 4231, test cases 1, 2 and 6 (a key longer than a block).
TEST(Hash, hmac) {
  EXPECT_EQ(hmacHex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmacHex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmacHex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_TRUE(sameDigest(hmacSha256("a", "b"), hmacSha256("a", "b")));
  EXPECT_FALSE(sameDigest(hmacSha256("a", "b"), hmacSha256("a", "c")));
}

TEST(Hash, piecesDoNotMatterFieldsDo) {
  std::string text(1000, 'x');
  for (size_t cut : {1u, 63u, 64u, 65u, 500u})
    EXPECT_EQ(Hasher().update(text.substr(0, cut)).update(text.substr(cut)).hex(), sha256Hex(text));
  EXPECT_NE(Hasher().field("ab").field("c").hex(), Hasher().field("a").field("bc").hex());
}
