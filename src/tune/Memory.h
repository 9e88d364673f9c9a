// The memory of a kernel's arguments during tuning: restores it before every run, and compares the results of runs.
//
// A configuration is tried by running the kernel many times on the caller's own arguments. Memory that is both read and
// written is restored before every run, so that each run sees the caller's values. The results of the first run of each
// configuration are kept and compared: a configuration whose results differ from those of more than half of all
// computes something else.
#pragma once
#include "runtime/Device.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tegula::tune {

/// The memory behind one argument of one configuration's kernel.
struct Buffer {
  std::string name;        // of the argument
  void *address = nullptr; // on the device
  int64_t bytes = -1;      // from `address` on; -1: unknown
  TegulaDtype dtype = TEGULA_VOID;
  bool read = false, written = false; // by that kernel
  bool isReset = false;               // the caller restores it before each run: it needs no copy
};

/// How far two results may differ, relative to the larger of two elements and to the largest of all: the effect of
/// another order of additions. 0 for types that are compared exactly.
double toleranceOf(TegulaDtype dtype);
/// Do these bytes hold the same elements, up to `tolerance`? All NaNs are equal; infinities equal only themselves.
/// `bytes` is a multiple of the element's size. Compares one or two GB a second, for every type.
bool isClose(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes, double tolerance);

/// The memory of one tuning; used by one thread. The caller's memory must stay until the end; the copies are freed with
/// this object.
class Memory {
public:
  /// `limit`: bytes that copies may take on the device. Results are compared if all written memory takes at most an
  /// eighth of it.
  Memory(runtime::Device &device, void *stream, uint64_t limit, bool compare)
      : device_(device), stream_(stream), left_(limit), compareLimit_(limit / 8), compares_(compare) {}
  ~Memory();
  Memory(const Memory &) = delete;

  /// As isClose, for two places in the device's memory, after all work queued on the stream; nullopt: not possible
  /// there.
  using Compare = std::function<std::optional<bool>(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes,
                                                    double tolerance)>;
  /// Results of at least that many bytes stay on the device, as far as the limit allows, and are compared there. Call
  /// it before add().
  void compareThere(Compare compare, uint64_t leastBytes) { there_ = std::move(compare), leastThere_ = leastBytes; }

  /// Registers the buffers of a configuration and saves those that need it. Call it before any configuration has run,
  /// or after restoreAll().
  runtime::Status add(const std::vector<Buffer> &buffers);
  /// Restores memory that is read and written, so that a run does not change the next one. Queued on the stream.
  runtime::Status restore() { return restore(stream_); }
  runtime::Status restore(void *stream);
  /// Also restores memory that is only written, which shows elements that a run does not write.
  runtime::Status restoreAll();
  /// Configuration `who` has run once after restoreAll(): keeps its results. Waits for the stream.
  runtime::Status note(size_t who);

  bool compares() const { return compares_; }
  /// Arguments that change from run to run and cannot be restored: their extent is unknown, or there is no room for the
  /// copy.
  const std::vector<std::string> &blind() const { return blind_; }
  struct Apart {
    size_t who;
    std::string argument; // the first that differs
  };
  /// There are at least two different results, and no more than half of the configurations agree.
  bool isDivided() const;
  /// The configurations whose results differ from those of more than half of all; empty if there is no such majority.
  std::vector<Apart> outvoted() const;

private:
  struct Saved {
    Buffer buffer;
    void *copy = nullptr;
    bool again = false; // restored before each run
  };
  /// The result of a run in one of saved_: on the device, else on the host.
  struct Left {
    std::vector<char> here;
    void *there = nullptr;
  };
  using Results = std::vector<Left>; // one for each of saved_
  struct Group {
    Results results;
    std::vector<size_t> members;
  };
  bool isRead(const Buffer &b) const;
  runtime::Status save(const Buffer &b);
  runtime::Status take(const Buffer &b, Left &to);
  bool isSame(const Buffer &b, const Left &x, const Left &y) const;
  void free(const Results &results);
  /// The result of the majority; null: there is none.
  const Group *majority() const;
  /// Index of the first argument in which two results differ; -1: none.
  int differing(const Results &a, const Results &b) const;

  runtime::Device &device_;
  void *stream_;
  uint64_t left_, compareLimit_;
  bool compares_;
  Compare there_; // empty: all is compared here
  uint64_t leastThere_ = 0;
  std::vector<std::pair<uintptr_t, uintptr_t>> reads_; // [begin, end)
  std::vector<Buffer> written_;
  std::vector<Saved> saved_;
  std::vector<std::string> blind_;
  std::vector<Group> groups_; // a few
  Results spare_;             // not in use
  size_t noted_ = 0;
  double tolerance_ = 0; // the coarsest of the arguments: what is computed between them is often rounded to it
};

} // namespace tegula::tune
