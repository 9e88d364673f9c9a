// A bundle: kernels compiled ahead of time, for many signatures and targets, in one file (docs/bundle.md explains the
// design).
//
//   header (224 bytes) | index: what there is, and the hash of everything after it | records: what launches must know |
//     code
//
// The file is mapped. Opening it reads the header and the index; a record is read at the first request for its kernel,
// and code is copied out of the mapping when it is loaded. A hash covers every byte of the file, padding included: the
// header has the hashes of itself and of the index, and the index those of each record and each piece of code. The
// checks are on the copies that are used, so the data cannot change between check and use. A signature, if there is
// one, covers the header, and so everything else.
#pragma once
#include "runtime/CacheFile.h"
#include <map>
#include <memory>

namespace tegula::runtime {

/// The specialization of one parameter. The leaves, in order, are the arguments of launches.
struct BundleParam {
  enum class Kind : uint8_t { Runtime, Constant, Tuple } kind = Kind::Constant;
  enum class Constant : uint8_t { None, Bool, Int, Float, Other } constant = Constant::None;
  std::string name;         // of a parameter; "" of an item of a tuple
  bool isConstexpr = false; // declared tl.constexpr: otherwise a constant is a fact about a value, as n == 1
  bool checksRange = false; // annotated: values that its type cannot hold may be passed
  bool isDescriptor = false; // Tuple
  // Runtime
  TegulaDtype dtype = TEGULA_VOID; // of the value, or pointee
  bool isPtr = false;
  uint32_t divisibility = 1;
  int32_t sameAs = -1; // of a parameter: an earlier one that must have the same address; -1: none
  // pointers with equal numbers, items of tuples included, may overlap in any way; 0: memory of its own
  int32_t overlap = 0;
  // Constant: its exact text, and the number if it is one.
  int64_t number = 0;
  double real = 0;
  std::string text;
  std::vector<BundleParam> items; // Tuple
};

/// Options of the compilation that launches can select by number.
struct BundleOptions {
  int32_t numWarps = 4, numStages = 3, numCtas = 1, maxnreg = 0;
  bool wide = false; // 64-bit offsets, for tensors of 2^30 elements and more
  uint64_t other = 0; // the compiler's other options, in its own encoding: must be equal
  bool operator==(const BundleOptions &) const = default;
};

/// The contents of an entry's record.
struct BundleRecord {
  std::string signature; // "x:*fp32:16, n:i32, BLOCK:1024"
  std::string grid;      // of the manifest: "cdiv(n, BLOCK)", or ""
  BundleOptions options;
  std::vector<BundleParam> params;
  KernelInfo info;
  /// What the compiler's library needs to turn the entry into one of its kernels.
  std::vector<std::pair<std::string, std::string>> properties;
};

/// An entry of the index.
struct BundleEntry {
  std::string kernel;
  std::string target; // "cpu:avx2", "sm_90a"
  // the required features of a machine, as words: "x86-64-v3", "cubin sm_90a", "ptx sm_80" (BundleMachine.h)
  std::string needs;
  Digest classKey{};  // of kernel, source, specialization and options; equal for the targets of one class
  uint32_t version = 0, abi = 0; // of the record's format, and of the contract between code and runtime
  uint32_t order = 0;            // in the manifest: of equal entries the first one is used
  uint64_t recordOffset = 0, recordBytes = 0, codeOffset = 0, codeBytes = 0;
  Digest recordHash{}, codeHash{}; // of the bytes with their padding
  /// "`add` for cpu:avx2"
  std::string title() const { return "`" + kernel + "` for " + target; }
  /// Is it of this version of the library? Otherwise `why` continues a sentence that begins with title().
  bool isReadable(std::string &why) const;
};

/// An entry to be written.
struct NewBundleEntry {
  std::string kernel, target, needs;
  Digest classKey{};
  BundleRecord record;
  std::vector<char> code;
};

using PublicKey = std::array<uint8_t, 32>;  // Ed25519
using SecretKey = std::array<uint8_t, 64>;  // as in libsodium: seed, public key

/// Immutable once opened; thread-safe.
class Bundle {
public:
  static constexpr uint32_t formatVersion = 1;
  static constexpr size_t headerBytes = 224, grain = 16;
  static constexpr uint64_t sizeLimit = uint64_t(1) << 36;

  ~Bundle();
  Bundle(const Bundle &) = delete;
  /// Maps a file. `key`: the file must be signed with it. `trusted` false: without a key, the file must belong to this
  /// user or root, and no other user may write to it. NOT_FOUND, IO_ERROR; UNSUPPORTED: another version;
  /// INVALID_ARGUMENT: not a bundle, damaged, or not trusted.
  static std::shared_ptr<const Bundle> open(const std::string &path, const PublicKey *key, bool trusted,
                                            Status &status);
  /// A bundle in memory, which must not change while the bundle lives. `name` is for messages.
  static std::shared_ptr<const Bundle> of(std::span<const char> bytes, std::string name, const PublicKey *key,
                                          Status &status);

  const std::string &name() const { return name_; }
  const std::vector<BundleEntry> &entries() const { return entries_; }
  bool isSigned() const { return signed_; }
  /// A sentence for each entry that this library cannot use, with the entry's name.
  const std::vector<std::string> &notes() const { return notes_; }
  /// Indices of the readable entries of this class, one for each target; and of this kernel.
  std::span<const uint32_t> ofClass(const Digest &classKey) const;
  std::span<const uint32_t> ofKernel(std::string_view kernel) const;

  /// Reads now and checks the hash. A failure names the entry.
  Status record(size_t i, BundleRecord &out) const;
  Status code(size_t i, std::vector<char> &out) const;
  /// Checks all entries.
  Status checkAll() const;

private:
  Bundle() = default;
  Status read(const PublicKey *key);
  Status readIndex(std::span<const char> index);
  Status damage(std::span<const char> index) const;
  Status bytesOf(const BundleEntry &e, uint64_t offset, uint64_t bytes, const Digest &hash, const char *what,
                 std::vector<char> &out) const;

  std::string name_;
  const char *data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false, signed_ = false;
  std::vector<BundleEntry> entries_;
  std::vector<std::string> notes_;
  std::map<Digest, std::vector<uint32_t>> classes_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> kernels_;
};

/// The file's bytes: equal for the same entries, in whatever order they were compiled. Equal code is stored once.
/// `sign`: a key to sign with, or null.
Status encodeBundle(std::vector<NewBundleEntry> entries, const SecretKey *sign, std::vector<char> &out);

/// Writes the bytes to a temporary file beside `path` and renames it, so that mappings of the old file stay valid.
Status writeBundle(const std::string &path, std::span<const char> bytes);

void write(ByteWriter &w, const BundleParam &p);
bool read(ByteReader &r, BundleParam &p, unsigned depth = 0);

} // namespace tegula::runtime
