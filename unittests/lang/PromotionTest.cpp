// The whole promotion table: every pair of dtypes, and every dtype with each kind of compile-time number.
#include "lang/Promotion.h"
#include <gtest/gtest.h>
#include <sstream>

namespace tegula::lang {
namespace {

// Rows and columns in this order; "." = no common type, "s" = refused for division because signedness differs.
const char *const order = "i1 i8 i16 i32 i64 u8 u16 u32 u64 fp8e5 fp8e4nv fp16 bf16 fp32 fp64";

const char *const sums = R"(
i1      i1 i8 i16 i32 i64 u8 u16 u32 u64 . . fp16 fp32 fp32 fp64
i8      i8 i8 i16 i32 i64 u8 u16 u32 u64 . . fp16 fp32 fp32 fp64
i16     i16 i16 i16 i32 i64 i16 u16 u32 u64 . . fp16 fp32 fp32 fp64
i32     i32 i32 i32 i32 i64 i32 i32 u32 u64 . . fp16 fp32 fp32 fp64
i64     i64 i64 i64 i64 i64 i64 i64 i64 u64 . . fp16 fp32 fp32 fp64
u8      u8 u8 i16 i32 i64 u8 u16 u32 u64 . . fp16 fp32 fp32 fp64
u16     u16 u16 u16 i32 i64 u16 u16 u32 u64 . . fp16 fp32 fp32 fp64
u32     u32 u32 u32 u32 i64 u32 u32 u32 u64 . . fp16 fp32 fp32 fp64
u64     u64 u64 u64 u64 u64 u64 u64 u64 u64 . . fp16 fp32 fp32 fp64
fp8e5   . . . . . . . . . fp8e5 fp16 fp16 fp32 fp32 fp64
fp8e4nv . . . . . . . . . fp16 fp8e4nv fp16 fp32 fp32 fp64
fp16    fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp32 fp64
bf16    fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp16 bf16 fp32 fp64
fp32    fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp64
fp64    fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64
)";

std::vector<std::string> words(const std::string &line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string w; in >> w;)
    out.push_back(w);
  return out;
}

std::string text(const Promotion &p) {
  return p.failure == NoPromotion::None ? code(p.dtype) : p.failure == NoPromotion::Signedness ? "s" : ".";
}

TEST(Promotion, EveryPair) {
  std::vector<std::string> columns = words(order);
  std::istringstream lines(sums);
  unsigned checked = 0;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells = words(line);
    if (cells.empty())
      continue;
    Dtype a = *parseDtype(cells[0]);
    for (size_t i = 0; i < columns.size(); ++i, ++checked) {
      Dtype b = *parseDtype(columns[i]);
      EXPECT_EQ(text(promoteDtypes(a, b, false)), cells[i + 1]) << cells[0] << " + " << columns[i];
      // Division: halves widen, ints of different signedness are refused, the rest is as for sums.
      std::string division = cells[i + 1];
      if (a.isInt() && b.isInt() && a.isSigned() != b.isSigned())
        division = "s";
      else if ((division == "fp16" || division == "bf16") && !(a.isFp8() && b.isFp8()))
        division = "fp32";
      EXPECT_EQ(text(promoteDtypes(a, b, true, Level::v37)), division) << cells[0] << " / " << columns[i];
      // From level 3.9 on every division with a float is one in 32 or 64 bits.
      if (a.isFloat() || b.isFloat())
        division = a.scalar == Scalar::Fp64 || b.scalar == Scalar::Fp64 ? "fp64" : "fp32";
      EXPECT_EQ(text(promoteDtypes(a, b, true)), division) << cells[0] << " / " << columns[i];
    }
  }
  EXPECT_EQ(checked, 15u * 15u);
}

TEST(Promotion, Numbers) {
  struct Row {
    const char *tensor, *number, *sum, *quotient;
  };
  const Row rows[] = {
      {"i1", "i1", "i1", "i1"},        {"i1", "i32", "i32", "s"},           {"i1", "fp32", "fp32", "fp32"},
      {"i8", "i1", "i8", "i8"},        {"i8", "i32", "i8", "i8"},           {"i8", "fp32", "fp32", "fp32"},
      {"u8", "i32", "u8", "u8"},       {"u64", "i32", "u64", "u64"},        {"i32", "fp64", "fp64", "fp64"},
      {"i32", "i64", "i32", "i32"},    {"fp16", "i32", "fp16", "fp32"},     {"fp16", "fp32", "fp16", "fp32"},
      {"bf16", "i1", "bf16", "fp32"},  {"bf16", "fp32", "bf16", "fp32"},    {"fp32", "fp64", "fp32", "fp32"},
      {"fp64", "i32", "fp64", "fp64"}, {"fp8e5", "fp32", "fp8e5", "fp8e5"}, {"fp8e5", "i32", "fp8e5", "fp8e5"},
  };
  for (const Row &r : rows) {
    Dtype t = *parseDtype(r.tensor), n = *parseDtype(r.number);
    EXPECT_EQ(text(promoteWithNumber(t, n, false)), r.sum) << r.tensor << " + " << r.number;
    EXPECT_EQ(text(promoteWithNumber(t, n, true, Level::v37)), r.quotient) << r.tensor << " / " << r.number;
    std::string latest = t.isFp8() ? "fp32" : r.quotient;
    EXPECT_EQ(text(promoteWithNumber(t, n, true)), latest) << r.tensor << " / " << r.number;
  }
}

} // namespace
} // namespace tegula::lang
