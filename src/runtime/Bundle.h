// A bundle: kernels compiled ahead of time, many signatures and targets, in one file (docs/bundle.md says why it looks
// as it does).
//
//   header (224 bytes) | index: what there is, and the hash of everything after it | records: what launches must know |
//     code
//
// The file is mapped. Opening it reads the header and the index; a record is read when its kernel is first asked for,
// and code is copied out of the mapping when it is loaded. Every byte of the file is covered by a hash: of the header
// in the header, of the index in the header, of each record and each piece of code in the index, padding included. What
// is checked is the copy that is used, so nobody can exchange it in between. A signature, where there is one, covers
// the header, and so all the rest.
#pragma once
#include "runtime/CacheFile.h"
#include <map>
#include <memory>

namespace tegula::runtime {

/// What a parameter of a kernel is specialized to. The leaves, in order, are what launches pass.
struct BundleParam {
  enum class Kind : uint8_t { Runtime, Constant, Tuple } kind = Kind::Constant;
  enum class Constant : uint8_t { None, Bool, Int, Float, Other } constant = Constant::None;
  std::string name;         // of a parameter; "" of an item of a tuple
  bool isConstexpr = false; // declared tl.constexpr: else a constant is a fact about a value, as n == 1
  bool checksRange = false; // annotated: values may come that its type cannot hold
  bool isDescriptor = false; // Tuple
  // Runtime
  TegulaDtype dtype = TEGULA_VOID; // of the value, or pointee
  bool isPtr = false;
  uint32_t divisibility = 1;
  int32_t sameAs = -1; // of a parameter: an earlier one that must be the same address; -1: none
  // those with one number may be of memory that overlaps in any way, items of tuples too; 0: of memory of its own
  int32_t overlap = 0;
  // Constant: a number where it is one, and in any case its exact text.
  int64_t number = 0;
  double real = 0;
  std::string text;
  std::vector<BundleParam> items; // Tuple
};

/// Options of the compilation that launches may ask for by number.
struct BundleOptions {
  int32_t numWarps = 4, numStages = 3, numCtas = 1, maxnreg = 0;
  bool wide = false; // offsets of 64 bits: serves tensors of 2^30 elements and more
  uint64_t other = 0; // the compiler's remaining options, in its own coding: must be equal
  bool operator==(const BundleOptions &) const = default;
};

/// What is known of an entry once its record was read.
struct BundleRecord {
  std::string signature; // "x:*fp32:16, n:i32, BLOCK:1024"
  std::string grid;      // of the manifest: "cdiv(n, BLOCK)", or ""
  BundleOptions options;
  std::vector<BundleParam> params;
  KernelInfo info;
  /// What the compiler's library wants to know again to make a kernel of its own of it.
  std::vector<std::pair<std::string, std::string>> properties;
};

/// An entry as it stands in the index.
struct BundleEntry {
  std::string kernel;
  std::string target; // "cpu:avx2", "sm_90a"
  // words that name what a machine must have: "x86-64-v3", "cubin sm_90a", "ptx sm_80" (BundleMachine.h)
  std::string needs;
  Digest classKey{};  // of kernel, source, specialization and options; equal for the targets of one class
  uint32_t version = 0, abi = 0; // of the record's format, and of the contract between code and runtime
  uint32_t order = 0;            // in the manifest: among equals the first one is taken
  uint64_t recordOffset = 0, recordBytes = 0, codeOffset = 0, codeBytes = 0;
  Digest recordHash{}, codeHash{}; // of the bytes with their padding
  /// "`add` for cpu:avx2"
  std::string title() const { return "`" + kernel + "` for " + target; }
  /// Is it of this version of the library? Else `why` is the end of a sentence that begins with title().
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
using SecretKey = std::array<uint8_t, 64>;  // as libsodium has it: seed, public key

/// Immutable once opened; thread-safe.
class Bundle {
public:
  static constexpr uint32_t formatVersion = 1;
  static constexpr size_t headerBytes = 224, grain = 16;
  static constexpr uint64_t sizeLimit = uint64_t(1) << 36;

  ~Bundle();
  Bundle(const Bundle &) = delete;
  /// Maps a file. `key`: the file must be signed with it. `trusted`: false: without a key, the file must belong to this
  /// user or root, and nobody else may write to it. NOT_FOUND, IO_ERROR; UNSUPPORTED: of another version;
  /// INVALID_ARGUMENT: no bundle, damaged, or not to be trusted.
  static std::shared_ptr<const Bundle> open(const std::string &path, const PublicKey *key, bool trusted,
                                            Status &status);
  /// Of memory that stays as it is for as long as the bundle lives. `name` stands in messages.
  static std::shared_ptr<const Bundle> of(std::span<const char> bytes, std::string name, const PublicKey *key,
                                          Status &status);

  const std::string &name() const { return name_; }
  const std::vector<BundleEntry> &entries() const { return entries_; }
  bool isSigned() const { return signed_; }
  /// Of entries that cannot be used by this library, each a sentence with the entry's name.
  const std::vector<std::string> &notes() const { return notes_; }
  /// Indices of the readable entries of this class, one for each target; of this kernel.
  std::span<const uint32_t> ofClass(const Digest &classKey) const;
  std::span<const uint32_t> ofKernel(std::string_view kernel) const;

  /// Read now, with its hash checked. A failure names the entry.
  Status record(size_t i, BundleRecord &out) const;
  Status code(size_t i, std::vector<char> &out) const;
  /// All of them.
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

/// The file's bytes: the same for the same entries, in whatever order they were compiled. Equal code is there once.
/// `sign`: a key to sign with, or null.
Status encodeBundle(std::vector<NewBundleEntry> entries, const SecretKey *sign, std::vector<char> &out);

/// Writes the bytes to a temporary file beside `path` and renames it, so that who has the old one mapped keeps it.
Status writeBundle(const std::string &path, std::span<const char> bytes);

void write(ByteWriter &w, const BundleParam &p);
bool read(ByteReader &r, BundleParam &p, unsigned depth = 0);

} // namespace tegula::runtime
