// What tuning does with the memory of a kernel's arguments: it is as the caller left it before every run, and what the
// runs leave is compared.
//
// A configuration is tried by running the kernel many times on the caller's own arguments. What is both read and
// written is set back before every run, so that each sees what the caller passed. What the first run of each
// configuration leaves in all that is written is kept and compared: a configuration that is apart from what more than
// half of all have computes something else.
#pragma once
#include "runtime/Device.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tegula::tune {

/// What one argument of one configuration's kernel points to.
struct Buffer {
  std::string name;        // of the argument
  void *address = nullptr; // on the device
  int64_t bytes = -1;      // from `address` on; -1: unknown
  TegulaDtype dtype = TEGULA_VOID;
  bool read = false, written = false; // by that kernel
  bool isReset = false;               // somebody else sets it back before each run: it may stay without a copy
};

/// How far two results may be apart, relative to the larger of two elements and to the largest of all: what another
/// order of additions does. 0 for types that are compared exactly.
double toleranceOf(TegulaDtype dtype);
/// Do these bytes hold the same elements, up to `tolerance`? NaNs are one, infinities are themselves. `bytes` is a
/// multiple of the element's. A GB or two a second, whatever the type.
bool isClose(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes, double tolerance);

/// The memory of one tuning; used by one thread. The caller's memory must stay until the end; copies are freed with
/// this object.
class Memory {
public:
  /// `limit`: bytes that copies may take on the device. Results are compared if all that is written takes at most an
  /// eighth of it.
  Memory(runtime::Device &device, void *stream, uint64_t limit, bool compare)
      : device_(device), stream_(stream), left_(limit), compareLimit_(limit / 8), compares_(compare) {}
  ~Memory();
  Memory(const Memory &) = delete;

  /// As isClose, for two places of the device's memory, after what was queued on the stream; nullopt: not there.
  using Compare = std::function<std::optional<bool>(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes,
                                                    double tolerance)>;
  /// Results of that many bytes and more stay on the device, as far as the limit allows, and are compared there. Before
  /// add().
  void compareThere(Compare compare, uint64_t leastBytes) { there_ = std::move(compare), leastThere_ = leastBytes; }

  /// Makes the buffers of a configuration known and saves what it needs; before any configuration has run, or after
  /// restoreAll().
  runtime::Status add(const std::vector<Buffer> &buffers);
  /// What one run leaves does not change the next one: sets back what is read and written. Queued on the stream.
  runtime::Status restore() { return restore(stream_); }
  runtime::Status restore(void *stream);
  /// Also what is only written: what a run does not write is seen.
  runtime::Status restoreAll();
  /// Configuration `who` has run once after restoreAll(): its results are noted. Waits for the stream.
  runtime::Status note(size_t who);

  bool compares() const { return compares_; }
  /// Arguments that change from run to run and cannot be set back: their extent is unknown, or there is no room for the
  /// copy.
  const std::vector<std::string> &blind() const { return blind_; }
  struct Apart {
    size_t who;
    std::string argument; // the first that differs
  };
  /// More than one result was noted, and no more than half of the configurations have the same.
  bool isDivided() const;
  /// Those that differ from what more than half of all noted configurations left; empty if there is no such majority.
  std::vector<Apart> outvoted() const;

private:
  struct Saved {
    Buffer buffer;
    void *copy = nullptr;
    bool again = false; // set back before each run
  };
  /// What a run left in one of saved_: on the device, else here.
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
  /// What most left; null: there is no majority.
  const Group *majority() const;
  /// Index of the first argument that two results are apart in; -1: none.
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
