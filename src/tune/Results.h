// Results of tuning as values: a record for each configuration, entries of records, files of entries; their text
// (JSON), and the merge of two files.
//
// A file, shortened; the same content is always the same bytes (everything sorted, one configuration a line):
//
//   {"format": "tegula tuning results", "format_version": 1, "kernels": [
//    {"name": "matmul", "hash": "5f2c...", "entries": [
//     {"device": "NVIDIA H200", "target": "sm_90a", "arguments": "M=4096, N=4096, x:fp16, y:fp16", "version": "0.1.0",
//      "choice": {"config": "BLOCK: 64, num_warps: 4", "how": "measured", "date": "2026-03-01T12:00:00Z"},
//      "configs": [
//       {"config": "BLOCK: 64, num_warps: 4", "median_ns": 1843.2, "low_ns": 1840.1, "high_ns": 1850.9, "runs": 54,
//         "date": "2026-03-01T12:00:00Z"}, {"config": "BLOCK: 512, num_warps: 4", "state": "failed", "kind":
//         "OutOfResources", "reason": "out of resource: ...", "date": "..."}
//      ]}
//    ]}
//   ]}
//
// Merging is a join (commutative, associative, idempotent: the result is the same for any number of files, in any
// order, merged any number of times):
//   - Kernels (name and hash) and entries (device, target, arguments, version) of both sides are kept. Versions never
//     compete: results of one version do not replace those of another, so a configuration that faulted stays faulted
//     until its own version runs it.
//   - Of two records of one configuration the better founded one stays. First by state: faulted, rejected, ok, failed
//     (a fault must not be forgotten because it did not happen elsewhere; a timed configuration did not fail). Then the
//     one with more runs, the newer, the faster, and last by text.
//   - Of two choices a measured one stays, then the newer, then by text. A choice that a record contradicts stays in
//     the file and is not used: see Entry::chosen.
#pragma once
#include "runtime/Status.h"
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tegula::tune {

using runtime::Status;

/// Seconds since 1970, UTC; 0: no date (left out in the file, so that results without clocks have equal bytes). At most
/// the year 9999.
using Date = int64_t;
Date now();

enum class State : uint8_t { Failed, Ok, Rejected, Faulted };
/// "failed", "ok", "rejected", "faulted".
const char *nameOf(State state);

/// The result of one configuration.
struct Record {
  State state = State::Ok;
  /// Nanoseconds, rounded to a tenth; for Ok only. The caller ensures low <= median <= high.
  double medianNs = 0, lowNs = 0, highNs = 0;
  /// The number of timed runs; for Ok only.
  uint32_t runs = 0;
  Date date = 0;
  /// For the other states. Failed: the error's kind ("OutOfResources") and its text. Faulted: the fault's kind, and the
  /// arguments of the configuration. Rejected: the argument with other values, and the reason.
  std::string kind, reason;

  static Record ok(double medianNs, double lowNs, double highNs, uint32_t runs, Date date);
  static Record bad(State state, std::string kind, std::string reason, Date date);
  bool operator==(const Record &) const = default;
};
/// The better founded of two records (see above).
const Record &better(const Record &a, const Record &b);

enum class How : uint8_t { Model, Measured };

struct Choice {
  /// Canonical text, a key of Entry::configs unless nothing was measured.
  std::string config;
  How how = How::Measured;
  Date date = 0;
  /// The set that it was chosen from, in words or as a hash by the caller. A later tuning over the same set need not
  /// measure what a budget left untried. "": not stated (left out in the file).
  std::string among;
  bool operator==(const Choice &) const;
};
const Choice &better(const Choice &a, const Choice &b);

/// The identity of a kernel: its name, and a hash of its source and everything it uses.
struct KernelKey {
  std::string name, hash;
  /// `uses`: source, the sources of helpers, values of globals, and whatever else changes the kernel.
  static KernelKey of(std::string name, std::string_view uses);
  auto operator<=>(const KernelKey &) const = default;
};

/// The conditions that measurements of a kernel hold for. The caller chooses all texts.
struct EntryKey {
  std::string device, target; // "NVIDIA H200", "sm_90a"
  std::string arguments;      // the class of arguments: "M=4096, N=4096, x:fp16, y:fp16"
  std::string version;        // of the compiler
  auto operator<=>(const EntryKey &) const = default;
};

struct Entry {
  /// By canonical text ("BLOCK: 64, num_warps: 4", in the caller's order of names).
  std::map<std::string, Record> configs;
  std::optional<Choice> choice;

  /// The choice to use: the one in the file, or, if its configuration has become bad, the fastest measured one, if any.
  std::optional<Choice> chosen() const;
  void join(const Entry &other);
  /// Joins later results: the later choice stays, unless only the one here was measured.
  void update(const Entry &later);
  bool isEmpty() const { return configs.empty() && !choice; }
  bool operator==(const Entry &) const;
};

using Entries = std::map<EntryKey, Entry>;

/// The content of a file, or of many.
struct Results {
  std::map<KernelKey, Entries> kernels;

  void join(const Results &other);
  bool operator==(const Results &) const;
};

/// A time as a file stores it: in tenths, finite, not negative.
double roundedNs(double ns);
bool isUtf8(std::string_view text);

inline constexpr size_t fileLimit = size_t(64) << 20;

/// The text of a file. Replaces texts that are not UTF-8 by U+FFFD.
std::string format(const Results &results);

/// The reverse of format(). INVALID_ARGUMENT: the text is not of this format, or is larger, deeper or has more values
/// than format() can produce; `out` is empty then. UNSUPPORTED: a newer version wrote it. Unknown members are ignored.
Status parse(std::string_view text, Results &out);

/// For people: a table of each entry, fastest configuration first.
std::string show(const Results &results);

} // namespace tegula::tune
