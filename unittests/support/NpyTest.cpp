// .npy files: round trips, the files other programs write, and files that lie.
#include "support/Npy.h"
#include <cstring>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace tegula;

namespace {
std::string file(const std::string &header, const std::string &data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header + data;
}
} // namespace

TEST(Npy, roundTripsEveryType) {
  for (auto [dtype, bytes] : {std::pair{"i1", 1},
                              {"i8", 1},
                              {"i16", 2},
                              {"i32", 4},
                              {"i64", 8},
                              {"u8", 1},
                              {"u64", 8},
                              {"fp16", 2},
                              {"fp32", 4},
                              {"fp64", 8},
                              {"bf16", 2},
                              {"fp8e5", 1},
                              {"fp8e4nv", 1}}) {
    NpyArray a{dtype, false, static_cast<unsigned>(bytes), {2, 3}, std::vector<char>(6 * bytes, 'x')}, b;
    std::string error;
    ASSERT_TRUE(parseNpy(formatNpy(a), b, error)) << dtype << ": " << error;
    EXPECT_EQ(b.dtype, dtype);
    EXPECT_EQ(b.shape, a.shape);
    EXPECT_EQ(b.data, a.data);
    EXPECT_EQ(formatNpy(a).size() % 64, 6u * bytes % 64) << "data begins at a multiple of 64";
  }
}

TEST(Npy, convertsFortranOrderAndBigEndian) {
  NpyArray a;
  std::string error;
  ASSERT_TRUE(parseNpy(file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "adbecf"), a, error))
      << error;
  EXPECT_EQ(std::string(a.data.begin(), a.data.end()), "abcdef");
  ASSERT_TRUE(
      parseNpy(file("{'descr': '>i2', 'fortran_order': False, 'shape': (1,), }", std::string("\x01\x02", 2)), a, error))
      << error;
  EXPECT_EQ(a.data[0], 2);
}

TEST(Npy, noElementsBesideHugeExtents) {
  NpyArray a;
  std::string error;
  ASSERT_TRUE(parseNpy(
      file("{'descr': '|u1', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904, 0), }", ""), a,
      error))
      << error;
  EXPECT_EQ(a.count(), 0);
}

TEST(Npy, refusesWithAReason) {
  struct Row {
    std::string bytes, reason;
  } rows[] = {
      {"", "does not start"},
      {"\x93NUMPX............", "does not start"},
      {file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "abcd"), "needs 12 bytes, 4 are there"},
      {file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", ""), "cut off"},
      {file("{'descr': '<f4', 'shape': (3,), }", ""), "not a dict"},
      {file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", ""), "not a dict"},
      {file("{'descr': '<U4', 'fortran_order': False, 'shape': (0,), }", ""), "not supported"},
      {std::string("\x93NUMPY\x01\x00\xff\xff{", 11), "header is cut off"},
      {std::string("\x93NUMPY\x09\x00\x01\x00    ", 14), "version 9"},
  };
  for (auto &row : rows) {
    NpyArray a;
    std::string error;
    EXPECT_FALSE(parseNpy(row.bytes, a, error)) << row.reason;
    EXPECT_NE(error.find(row.reason), std::string::npos) << error;
  }
}

TEST(Npy, devicesWithoutEnd) {
  std::string bytes, error;
  EXPECT_FALSE(readFile("/dev/zero", bytes, error));
  EXPECT_EQ(error, "cannot read `/dev/zero`: the device gives more than 64 MiB");
  EXPECT_TRUE(readFile("/dev/null", bytes, error)) << error;
  EXPECT_EQ(bytes, "");
}

TEST(Npy, writesWholeFilesOrNone) {
  std::string dir = testing::TempDir() + "npy-test", error, back;
  mkdir(dir.c_str(), 0700);
  ASSERT_TRUE(writeFile(dir + "/a", "hello", error)) << error;
  ASSERT_TRUE(readFile(dir + "/a", back, error)) << error;
  EXPECT_EQ(back, "hello");
  EXPECT_FALSE(writeFile(dir + "/no/such/folder", "x", error));
  EXPECT_NE(error.find("cannot write"), std::string::npos);
  EXPECT_FALSE(readFile(dir, back, error));
  EXPECT_NE(error.find("directory"), std::string::npos);
  EXPECT_FALSE(readFile(dir + "/b", back, error));
  // A limit holds for what is there and for what comes.
  EXPECT_TRUE(readFile(dir + "/a", back, error, 5)) << error;
  EXPECT_FALSE(readFile(dir + "/a", back, error, 4));
  EXPECT_EQ(error, "cannot read `" + dir + "/a`: it has more than 0 MiB");
  EXPECT_EQ(back, "");
}
