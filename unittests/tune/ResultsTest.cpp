// Tuning results as values: the text of a file, and merging as a join.
#include "tune/Results.h"
#include <gtest/gtest.h>
#include <random>

using namespace tegula::tune;

namespace {
/// Results that meet each other: few kernels, devices, configurations, and few values of everything a record is ranked
/// by.
struct Draw {
  std::mt19937 random;
  explicit Draw(unsigned seed) : random(seed) {}
  unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random); }

  std::string config() { return "BLOCK: " + std::to_string(16u << below(3)); }
  Record record() {
    if (below(2)) {
      double median = 100 + below(3);
      return Record::ok(median, median - below(2), median + below(2) / 3.0, 1 + below(3), below(3));
    }
    static constexpr State states[] = {State::Failed, State::Rejected, State::Faulted};
    return Record::bad(states[below(3)], below(2) ? "a" : "b", below(2) ? "why\n\"\x01" : "\xc3\xa4", below(3));
  }
  Entry entry() {
    Entry e;
    for (unsigned n = below(4); n > 0; --n) e.configs[config()] = record();
    if (e.configs.empty() || below(2))
      e.choice = Choice{config(), below(2) ? How::Measured : How::Model, below(3), below(2) ? "" : "all"};
    return e;
  }
  Results results() {
    Results r;
    for (unsigned n = below(5); n > 0; --n) {
      EntryKey key{below(2) ? "cpu" : "NVIDIA H200", "t", below(2) ? "" : "n=1", below(2) ? "1" : "2"};
      r.kernels[KernelKey::of(below(2) ? "k" : "l", "")][key] = entry();
    }
    return r;
  }
};
} // namespace

static Results joined(Results a, const Results &b) {
  a.join(b);
  return a;
}

TEST(Results, MergingIsAJoin) {
  unsigned different = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Draw draw(seed);
    Results a = draw.results(), b = draw.results(), c = draw.results();
    Results ab = joined(a, b);
    ASSERT_EQ(ab, joined(b, a)) << seed;
    ASSERT_EQ(joined(ab, c), joined(a, joined(b, c))) << seed;
    ASSERT_EQ(joined(a, a), a) << seed;
    ASSERT_EQ(joined(ab, b), ab) << seed;
    ASSERT_EQ(format(ab), format(joined(b, a)));
    different += ab != a && ab != b;
  }
  EXPECT_GT(different, 2000u);
}

TEST(Results, TextComesBack) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Results a = Draw(seed).results(), b;
    std::string text = format(a);
    ASSERT_TRUE(parse(text, b)) << text;
    ASSERT_EQ(a, b) << text;
    ASSERT_EQ(format(b), text);
  }
}

TEST(Results, TheTextOfAFile) {
  Results r;
  Entry &e = r.kernels[{"matmul", "5f2c"}][{"NVIDIA H200", "sm_90a", "M=4096, x:fp16", "0.1.0"}];
  e.configs["BLOCK: 64, num_warps: 4"] = Record::ok(1843.24, 1840, 1850.96, 54, 1772366400);
  e.configs["BLOCK: 512, num_warps: 4"] = Record::bad(State::Failed, "OutOfResources", "shared \"memory\"", 1772366401);
  e.choice = Choice{"BLOCK: 64, num_warps: 4", How::Model, 0, "2 \"a\""};
  EXPECT_EQ(format(r), R"({"format": "tegula tuning results", "format_version": 1, "kernels": [
  {"name": "matmul", "hash": "5f2c", "entries": [
   {"device": "NVIDIA H200", "target": "sm_90a",
    "arguments": "M=4096, x:fp16", "version": "0.1.0",
    "choice": {"config": "BLOCK: 64, num_warps: 4", "how": "model", "among": "2 \"a\""},
    "configs": [
     {"config": "BLOCK: 512, num_warps: 4", "state": "failed", "kind": "OutOfResources", "reason": "shared \"memory\"", "date": "2026-03-01T12:00:01Z"},
     {"config": "BLOCK: 64, num_warps: 4", "median_ns": 1843.2, "low_ns": 1840.0, "high_ns": 1851.0, "runs": 54, "date": "2026-03-01T12:00:00Z"}
    ]}
  ]}
]}
)");
  EXPECT_EQ(format({}), "{\"format\": \"tegula tuning results\", \"format_version\": 1, \"kernels\": [\n]}\n");
}

TEST(Results, TheBetterFoundedRecordStays) {
  Record fault = Record::bad(State::Faulted, "k", "r", 1), rejected = Record::bad(State::Rejected, "k", "r", 9);
  Record failed = Record::bad(State::Failed, "k", "r", 9), few = Record::ok(5, 4, 6, 2, 9),
         many = Record::ok(9, 8, 10, 3, 1);
  Record newer = Record::ok(9, 8, 10, 3, 2), faster = Record::ok(8, 8, 10, 3, 2);
  const Record *order[] = {&failed, &few, &many, &newer, &faster, &rejected, &fault};
  for (size_t i = 0; i < std::size(order); ++i)
    for (size_t j = 0; j < std::size(order); ++j)
      EXPECT_EQ(better(*order[i], *order[j]), *order[std::max(i, j)]) << i << " " << j;
}

TEST(Results, AChoiceThatHasBecomeBadIsNotUsed) {
  Entry e;
  EXPECT_FALSE(e.chosen());
  e.configs["a"] = Record::ok(3, 3, 3, 1, 0);
  e.configs["b"] = Record::ok(2, 2, 2, 1, 0);
  e.choice = Choice{"a", How::Measured, 0};
  EXPECT_EQ(e.chosen()->config, "a");
  e.configs["a"] = Record::bad(State::Faulted, "k", "r", 0);
  EXPECT_EQ(e.chosen()->config, "b");
  e.configs["b"] = e.configs["a"];
  EXPECT_FALSE(e.chosen());
  e.choice = Choice{"c", How::Model, 0};
  EXPECT_EQ(e.chosen()->config, "c");
}

TEST(Results, AModelNeverReplacesAMeasuredChoice) {
  Entry e, model, measured;
  model.choice = Choice{"m", How::Model, 9};
  measured.choice = Choice{"a", How::Measured, 5};
  e.update(model);
  EXPECT_EQ(e.choice->config, "m");
  e.update(measured);
  e.update(model);
  EXPECT_EQ(e.choice->config, "a");
  // What is decided later stays, without clocks too.
  measured.choice = Choice{"A", How::Measured, 1};
  e.update(measured);
  EXPECT_EQ(e.choice->config, "A");
}

TEST(Results, NumbersOutsideOfAllRanges) {
  double inf = std::numeric_limits<double>::infinity();
  Results r, back;
  Entry &e = r.kernels[KernelKey::of("k", "")][{}];
  e.configs["a"] = Record::ok(inf, -1, std::numeric_limits<double>::quiet_NaN(), UINT32_MAX, INT64_MAX);
  e.configs["b"] = Record::bad(State::Failed, "", std::string(1999, 'x') + "\xc3\xa4" + std::string(5000, 'y'), -5);
  std::string text = format(r);
  ASSERT_TRUE(parse(text, back));
  EXPECT_EQ(format(back), text);
  const std::string &reason = back.kernels.begin()->second.begin()->second.configs["b"].reason;
  EXPECT_EQ(reason, std::string(1999, 'x') + "...");
}

TEST(Results, WhatIsNotOursIsRefusedWithAReason) {
  Results r;
  auto why = [&](std::string_view text) {
    Status s = parse(text, r);
    EXPECT_TRUE(r.kernels.empty());
    return std::string(s.code == TEGULA_OK ? "ok" : s.code == TEGULA_UNSUPPORTED ? "newer: " : "") + s.text;
  };
  auto entry = [&](std::string rest) {
    return why(R"({"format": "tegula tuning results", "format_version": 1, "kernels": [{"name": "k", "hash": "h", "entries": [
      {"device": "d", "target": "t", "arguments": "", "version": "1", )" + rest + "}]}]}");
  };
  EXPECT_EQ(why(""), "is not JSON");
  EXPECT_EQ(why(format({}) + "x"), "is not JSON");
  EXPECT_EQ(why("\xff"), "is not JSON");
  EXPECT_EQ(why("[]"), "is not a file of tuning results");
  EXPECT_EQ(why("{\"format\": \"x\"}"), "is not a file of tuning results");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\"}"), "`format_version` is missing");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\", \"format_version\": 1.5}"),
            "`format_version` is not a whole number");
  EXPECT_EQ(why("{\"kernels\": 3}"), "is not a file of tuning results");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\", \"format_version\": 2, \"kernels\": 5}"),
            "newer: was written by a newer version of tegula");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\", \"format_version\": 2}"),
            "newer: was written by a newer version of tegula");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\", \"format_version\": 1}"), "`kernels` is missing");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\", \"format_version\": 1, \"kernels\": {}}"),
            "`kernels` is not a list");
  EXPECT_EQ(why("{\"format\": \"tegula tuning results\", \"format_version\": 1, \"kernels\": [1]}"),
            "`kernels` has something else than objects");
  EXPECT_EQ(entry(R"("choice": 1)"), "`choice` is not an object");
  EXPECT_EQ(entry(R"("choice": {"config": 1, "how": "model"})"), "`config` is not text");
  EXPECT_EQ(entry(R"("choice": {"config": "c", "how": "guess"})"), "`how` is neither measured nor model");
  EXPECT_EQ(entry(R"("configs": [{"config": "c", "state": "good", "kind": "k", "reason": "r"}])"), "`state` is none of failed, rejected, faulted");
  EXPECT_EQ(entry(R"("configs": [{"config": "c", "median_ns": "1", "low_ns": 1, "high_ns": 1, "runs": 1}])"), "`median_ns` is not a number");
  EXPECT_EQ(entry(R"("configs": [{"config": "c", "median_ns": 1, "low_ns": 1, "high_ns": 1, "runs": -1}])"), "`runs` is not a whole number");
  for (const char *date :
       {"2026-02-30T00:00:00Z", "2026-01-01 00:00:00Z", "1969-01-01T00:00:00Z", "2026-01-01T24:00:00Z", "x"})
    EXPECT_EQ(entry(std::string(R"("choice": {"config": "c", "how": "model", "date": ")") + date + "\"}"), "`date` is not a date like 2026-03-01T12:00:00Z");
  EXPECT_EQ(entry(R"("configs": [{"config": "c", "low_ns": 1, "high_ns": 1, "runs": 1}])"), "`median_ns` is missing");
  EXPECT_EQ(entry(R"("configs": [{"config": "c", "state": "failed", "kind": "k"}])"), "`reason` is missing");
  EXPECT_EQ(entry(R"("configs": [{"config": null}])"), "`config` is not text");
  EXPECT_EQ(entry(R"("configs": [["config"]])"), "`configs` has something else than objects");
  EXPECT_EQ(entry(R"("configs": [true])"), "`configs` has something else than objects");
  std::string head = "{\"format\": \"tegula tuning results\", \"format_version\": 1, \"kernels\": [], \"x\": ";
  EXPECT_EQ(why(head + std::string(15, '[') + std::string(15, ']') + "}"), "ok");
  EXPECT_EQ(why(head + std::string(16, '[') + std::string(16, ']') + "}"), "is nested deeper than results are");
  EXPECT_EQ(why(head + std::string(1 << 20, '[')), "is nested deeper than results are");
  EXPECT_EQ(why(std::string(fileLimit + 1, ' ')), "is larger than 64 MiB");
}

TEST(Results, WhatANewerVersionAddsToTheFormatIsLeftOut) {
  Results r;
  ASSERT_TRUE(parse(R"({"format": "tegula tuning results", "format_version": 1, "extra": [1], "kernels": [{"name": "k", "hash": "h", "x": {}, "entries": [
      {"device": "d", "target": "t", "arguments": "", "version": "1", "y": 1, "choice": {"config": "c", "how": "model", "z": null}}]}]})",
                    r));
  EXPECT_EQ(r.kernels.at({"k", "h"}).at({"d", "t", "", "1"}).choice->config, "c");
}

TEST(Results, MembersMayComeInAnyOrder) {
  Results r, same;
  ASSERT_TRUE(parse(R"({"kernels": [{"entries": [{"configs": [{"date": "2026-03-01T12:00:00Z", "runs": 2, "high_ns": 3, "low_ns": 1, "median_ns": 2, "config": "c"},
      {"reason": "r", "config": "b", "kind": "k", "state": "failed"}], "version": "1", "arguments": "a", "target": "t", "device": "d"},
      {"device": "d", "target": "t", "arguments": "a", "version": "1", "configs": [{"config": "b", "state": "faulted", "kind": "k", "reason": "r"}]}],
      "hash": "h", "name": "k"}, {"name": "k", "hash": "h", "entries": []}], "format_version": 1, "format": "tegula tuning results"})",
                    r));
  Entry &e = same.kernels[{"k", "h"}][{"d", "t", "a", "1"}];
  e.configs["c"] = Record::ok(2, 1, 3, 2, 1772366400);
  e.configs["b"] = Record::bad(State::Faulted, "k", "r", 0);
  EXPECT_EQ(r, same);
}

TEST(Results, Utf8) {
  for (std::string_view good : {"", "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(isUtf8(good)) << good;
  for (std::string_view bad :
       {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x80\x80\x80", "a\xff"})
    EXPECT_FALSE(isUtf8(bad)) << bad;
}

TEST(Results, Shown) {
  Results r;
  Entry &e = r.kernels[{"matmul", "5f2c0123456789"}][{"cpu", "avx2", "M=64", "0.1.0"}];
  e.configs["BLOCK: 128"] = Record::ok(2.5e6, 2e6, 3e9, 1, 0);
  e.configs["BLOCK: 64"] = Record::ok(950, 900, 1500, 54, 0);
  e.configs["BLOCK: 512"] = Record::bad(State::Faulted, "died", "x: \x1b[1mfp16\nand more", 0);
  e.choice = Choice{"BLOCK: 64", How::Measured, 0};
  EXPECT_EQ(show(r), R"(matmul (5f2c0123) on cpu (avx2), version 0.1.0
  for M=64
* BLOCK: 64   950.0 ns  [900.0 ns, 1.500 us]  54 runs
  BLOCK: 128  2.500 ms  [2.000 ms, 3.000 s]  1 run
  BLOCK: 512  faulted (died): x: ?[1mfp16
  chosen: measured
)");
}
