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

TEST(Hash, piecesDoNotMatterFieldsDo) {
  std::string text(1000, 'x');
  for (size_t cut : {1u, 63u, 64u, 65u, 500u})
    EXPECT_EQ(Hasher().update(text.substr(0, cut)).update(text.substr(cut)).hex(), sha256Hex(text));
  EXPECT_NE(Hasher().field("ab").field("c").hex(), Hasher().field("a").field("bc").hex());
}
