// Reader and writer of bundles. read() and readIndex() check everything that the reader relies on; change entryVersion
// with any change of a record, KernelInfo's own format included.
#include "runtime/Bundle.h"
#include "abi/GpuAbi.h"
#include "runtime/Ed25519.h"
#include "runtime/OwnFiles.h"
#include "support/Hash.h"
#include "support/SameAs.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tegula::runtime {

static constexpr char magic[8] = {'t', 'e', 'g', 'u', 'l', 'a', 'B', '\n'};
static constexpr uint32_t entryVersion = 3, isSignedFlag = 1;
static constexpr unsigned deepest = 64; // tuples in tuples
// Offsets in the header; the signed part ends where the signature begins.
static constexpr size_t publicKeyAt = 8 + 4 + 4 + 8 + 8 + 8 + 32, signatureAt = publicKeyAt + 32,
                        headerHashAt = Bundle::headerBytes - 32;
static_assert(signatureAt + 64 <= headerHashAt);

static Digest sha256(std::span<const char> bytes) { return Hasher().update({bytes.data(), bytes.size()}).digest(); }
static uint64_t padded(uint64_t n) { return (n + Bundle::grain - 1) / Bundle::grain * Bundle::grain; }

static uint32_t abiOf(std::string_view target) {
  return target.starts_with("sm_") ? TEGULA_GPU_ABI_VERSION : TEGULA_CPU_ABI_VERSION;
}

bool BundleEntry::isReadable(std::string &why) const {
  if (version == entryVersion && abi == abiOf(target)) return true;
  why = "is of another version of tegula (entry " + std::to_string(version) + "." + std::to_string(abi) +
        ", this library reads " + std::to_string(entryVersion) + "." + std::to_string(abiOf(target)) + ")";
  return false;
}

// ---- records

void write(ByteWriter &w, const BundleParam &p) {
  w.str(p.name);
  w.u8(static_cast<uint8_t>(p.kind));
  w.u8(p.isConstexpr), w.u8(p.checksRange);
  switch (p.kind) {
  case BundleParam::Kind::Runtime:
    w.u8(p.dtype), w.u8(p.isPtr), w.u32(p.divisibility), w.u32(static_cast<uint32_t>(p.sameAs + 1)),
        w.u32(static_cast<uint32_t>(p.overlap));
    break;
  case BundleParam::Kind::Constant:
    w.u8(static_cast<uint8_t>(p.constant));
    w.u64(static_cast<uint64_t>(p.number)), w.u64(std::bit_cast<uint64_t>(p.real)), w.str(p.text);
    break;
  case BundleParam::Kind::Tuple:
    w.u8(p.isDescriptor);
    w.str(p.text);
    w.u64(p.items.size());
    for (const BundleParam &item : p.items) write(w, item);
  }
}

bool read(ByteReader &r, BundleParam &p, unsigned depth) {
  p.name = r.str();
  uint8_t kind = r.u8();
  if (kind > static_cast<uint8_t>(BundleParam::Kind::Tuple) || depth > deepest) return false;
  p.kind = static_cast<BundleParam::Kind>(kind);
  p.isConstexpr = r.flag(), p.checksRange = r.flag();
  if (p.kind == BundleParam::Kind::Runtime) {
    p.dtype = r.u8(), p.isPtr = r.flag(), p.divisibility = r.u32(), p.sameAs = static_cast<int32_t>(r.u32()) - 1,
    p.overlap = static_cast<int32_t>(r.u32());
    return !r.failed() && p.overlap >= 0 && (p.overlap == 0 || (p.isPtr && p.sameAs < 0)) && p.dtype != TEGULA_VOID &&
           p.dtype <= TEGULA_FP64 && p.divisibility >= 1 && p.divisibility <= 1 << 20;
  }
  if (p.kind == BundleParam::Kind::Constant) {
    uint8_t constant = r.u8();
    if (constant > static_cast<uint8_t>(BundleParam::Constant::Other)) return false;
    p.constant = static_cast<BundleParam::Constant>(constant);
    p.number = static_cast<int64_t>(r.u64()), p.real = std::bit_cast<double>(r.u64()), p.text = r.str();
    return !r.failed();
  }
  p.isDescriptor = r.flag();
  p.text = r.str();
  for (size_t n = r.count(20); n; --n)
    if (!read(r, p.items.emplace_back(), depth + 1)) return false;
  return !r.failed();
}

static std::vector<char> encodeRecord(const BundleRecord &record) {
  ByteWriter w;
  w.str(record.signature), w.str(record.grid);
  const BundleOptions &o = record.options;
  for (int32_t n : {o.numWarps, o.numStages, o.numCtas, o.maxnreg}) w.u32(static_cast<uint32_t>(n));
  w.u8(o.wide), w.u64(o.other);
  w.u64(record.params.size());
  for (const BundleParam &p : record.params) write(w, p);
  // A launch from a bundle uses the form that the bundle holds.
  KernelInfo info = record.info;
  info.forms = {};
  write(w, info);
  w.u64(record.properties.size());
  for (const auto &[name, value] : record.properties) w.str(name), w.str(value);
  return std::move(w.bytes);
}

static bool isPlain(const BundleParam &p) { return p.sameAs == -1 && std::ranges::all_of(p.items, isPlain); }

/// Does each BundleParam::sameAs refer to an earlier pointer of the same type, and only on a parameter?
static bool sameAsFits(const std::vector<BundleParam> &params) {
  auto alike = [&](size_t i, size_t of) {
    return params[i].isPtr && params[of].isPtr && params[i].dtype == params[of].dtype;
  };
  return std::ranges::all_of(params, [](const BundleParam &p) { return std::ranges::all_of(p.items, isPlain); }) &&
         firstWrongSameAs(params.size(), [&](size_t i) { return params[i].sameAs; }, alike) == params.size();
}

/// Counts the arguments of a launch that a parameter takes, in the order of KernelInfo::args.
static bool countArgs(const std::vector<BundleParam> &params, const KernelInfo &info, size_t &next) {
  for (const BundleParam &p : params) {
    if (p.kind == BundleParam::Kind::Tuple && !countArgs(p.items, info, next)) return false;
    if (p.kind != BundleParam::Kind::Runtime) continue;
    if (next == info.args.size() || info.args[next].isPtr != p.isPtr) return false;
    ++next;
  }
  return true;
}

static bool decodeRecord(std::span<const char> bytes, BundleRecord &record) {
  ByteReader r(bytes.data(), bytes.size());
  record.signature = r.str(), record.grid = r.str();
  BundleOptions &o = record.options;
  for (int32_t *n : {&o.numWarps, &o.numStages, &o.numCtas, &o.maxnreg}) *n = static_cast<int32_t>(r.u32());
  o.wide = r.flag(), o.other = r.u64();
  for (size_t n = r.count(20); n; --n)
    if (!read(r, record.params.emplace_back())) return false;
  if (!read(r, record.info)) return false;
  record.properties.resize(r.count(16));
  for (auto &[name, value] : record.properties) name = r.str(), value = r.str();
  size_t args = 0;
  return !r.failed() && r.atEnd() && sameAsFits(record.params) && countArgs(record.params, record.info, args) &&
         args == record.info.args.size();
}

// ---- the index

/// The check word of an entry, which identifies it if the index itself is damaged.
static uint64_t checkWord(const char *begin, size_t size) {
  Digest d = sha256({begin, size});
  uint64_t word;
  std::memcpy(&word, d.data(), sizeof word);
  return word;
}

static void writeEntry(ByteWriter &w, const BundleEntry &e) {
  size_t begin = w.bytes.size();
  w.str(e.kernel), w.str(e.target), w.str(e.needs);
  w.raw(e.classKey.data(), e.classKey.size());
  w.u32(e.version), w.u32(e.abi), w.u32(e.order);
  for (uint64_t n : {e.recordOffset, e.recordBytes, e.codeOffset, e.codeBytes}) w.u64(n);
  w.raw(e.recordHash.data(), e.recordHash.size()), w.raw(e.codeHash.data(), e.codeHash.size());
  w.u64(checkWord(w.bytes.data() + begin, w.bytes.size() - begin));
}

static void readEntry(ByteReader &r, BundleEntry &e) {
  e.kernel = r.str(), e.target = r.str(), e.needs = r.str();
  r.raw(e.classKey.data(), e.classKey.size());
  e.version = r.u32(), e.abi = r.u32(), e.order = r.u32();
  for (uint64_t *n : {&e.recordOffset, &e.recordBytes, &e.codeOffset, &e.codeBytes}) *n = r.u64();
  r.raw(e.recordHash.data(), e.recordHash.size()), r.raw(e.codeHash.data(), e.codeHash.size());
}

static constexpr size_t leastEntryBytes = 3 * 8 + 32 + 3 * 4 + 4 * 8 + 2 * 32 + 8;

Status Bundle::readIndex(std::span<const char> index) {
  ByteReader r(index.data(), index.size());
  auto damaged = [&](const std::string &what) {
    return Status::error(TEGULA_INVALID_ARGUMENT, name_ + " is damaged: " + what);
  };
  const uint64_t begin = headerBytes + padded(index.size());
  auto inside = [&](uint64_t offset, uint64_t bytes) {
    return offset >= begin && offset % grain == 0 && bytes <= size_ && offset <= size_ &&
           padded(bytes) <= size_ - offset;
  };
  for (size_t n = r.count(leastEntryBytes); n; --n) {
    BundleEntry &e = entries_.emplace_back();
    readEntry(r, e);
    r.u64();
    if (r.failed() || !inside(e.recordOffset, e.recordBytes) || !inside(e.codeOffset, e.codeBytes))
      return damaged("entry " + std::to_string(entries_.size()) + " of its index lies outside of the file");
  }
  if (r.failed() || !r.atEnd()) return damaged("its index does not end where it should");
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const BundleEntry &e = entries_[i];
    if (std::string why; !e.isReadable(why)) {
      notes_.push_back(name_ + ": " + e.title() + " " + why);
      continue;
    }
    classes_[e.classKey].push_back(i);
    kernels_[e.kernel].push_back(i);
  }
  for (auto &[kernel, list] : kernels_)
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(entries_[a].order, a) < std::pair(entries_[b].order, b);
    });
  return Status::ok();
}

/// The index differs from the header's hash: finds the damaged entry.
Status Bundle::damage(std::span<const char> index) const {
  ByteReader r(index.data(), index.size());
  size_t n = r.count(leastEntryBytes);
  std::string previous;
  for (size_t i = 1; i <= n && !r.failed(); ++i) {
    BundleEntry e;
    ByteReader before = r;
    readEntry(r, e);
    size_t bytes = before.left() - r.left();
    if (uint64_t word = r.u64(); r.failed() || word != checkWord(index.data() + index.size() - before.left(), bytes)) {
      // The entry's name may be the damaged part.
      std::string which = "entry " + std::to_string(i) + " of its index (" +
                          (previous.empty() ? "the first one" : "behind " + previous);
      bool legible = !r.failed() && !e.kernel.empty() && e.kernel.size() < 200 &&
                     std::all_of(e.kernel.begin(), e.kernel.end(), [](char c) { return c > ' ' && c < 127; });
      return Status::error(TEGULA_INVALID_ARGUMENT,
                           name_ + " is damaged: " + which + (legible ? ", " + e.title() : "") + ") was changed");
    }
    previous = e.title();
  }
  return Status::error(TEGULA_INVALID_ARGUMENT, name_ + " is damaged: its index was changed");
}

// ---- reading

Status Bundle::read(const PublicKey *key) {
  auto refuse = [&](TegulaStatus code, const std::string &what) { return Status::error(code, name_ + " " + what); };
  if (size_ < sizeof magic || std::memcmp(data_, magic, sizeof magic) != 0)
    return refuse(TEGULA_INVALID_ARGUMENT, "is no bundle of tegula");
  char header[headerBytes] = {};
  std::memcpy(header, data_, std::min(size_, sizeof header));
  ByteReader r(header + sizeof magic, sizeof header - sizeof magic);
  uint32_t version = r.u32(), flags = r.u32();
  if (size_ >= 12 && version != formatVersion)
    return refuse(TEGULA_UNSUPPORTED, "is a bundle of format " + std::to_string(version) + "; this is tegula " +
                                          std::to_string(TEGULA_VERSION_MAJOR) + "." +
                                          std::to_string(TEGULA_VERSION_MINOR) + ", which reads format " +
                                          std::to_string(formatVersion));
  if (size_ < headerBytes) return refuse(TEGULA_INVALID_ARGUMENT, "is damaged: it ends in its header");
  Digest headerHash, indexHash;
  std::memcpy(headerHash.data(), header + headerHashAt, headerHash.size());
  if (headerHash != sha256({header, headerHashAt}))
    return refuse(TEGULA_INVALID_ARGUMENT, "is damaged: its header was changed");
  uint64_t fileBytes = r.u64(), indexBytes = r.u64(), reserved = r.u64();
  r.raw(indexHash.data(), indexHash.size());
  if (fileBytes != size_ || reserved || flags & ~isSignedFlag || indexBytes > size_ - headerBytes ||
      padded(indexBytes) > size_ - headerBytes)
    return refuse(TEGULA_INVALID_ARGUMENT, "is damaged: it has " + std::to_string(size_) + " bytes, its header says " +
                                               std::to_string(fileBytes));
  signed_ = flags & isSignedFlag;
  if (key) {
    PublicKey signer;
    std::array<uint8_t, 64> signature;
    std::memcpy(signer.data(), header + publicKeyAt, signer.size());
    std::memcpy(signature.data(), header + signatureAt, signature.size());
    if (!signed_) return refuse(TEGULA_INVALID_ARGUMENT, "is not signed, and a public key is given");
    if (signer != *key) return refuse(TEGULA_INVALID_ARGUMENT, "is signed with another key than the one that is given");
    bool valid = false;
    if (Status s = checkSignature({header, signatureAt}, signature, *key, valid); !s) return s;
    if (!valid) return refuse(TEGULA_INVALID_ARGUMENT, "has a signature that does not belong to it");
  }
  // A copy, so that the parsed bytes are the checked ones. Padding is included.
  std::vector<char> index(data_ + headerBytes, data_ + headerBytes + padded(indexBytes));
  if (sha256(index) != indexHash) return damage({index.data(), indexBytes});
  return readIndex({index.data(), indexBytes});
}

std::shared_ptr<const Bundle> Bundle::of(std::span<const char> bytes, std::string name, const PublicKey *key,
                                         Status &status) {
  std::shared_ptr<Bundle> b(new Bundle);
  b->name_ = std::move(name);
  b->data_ = bytes.data();
  b->size_ = bytes.size();
  status = b->read(key);
  return status ? b : nullptr;
}

std::shared_ptr<const Bundle> Bundle::open(const std::string &path, const PublicKey *key, bool trusted,
                                           Status &status) {
  auto failed = [&](TegulaStatus code, const std::string &why) {
    status = Status::error(code, path + " " + why);
    return nullptr;
  };
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return failed(errno == ENOENT ? TEGULA_NOT_FOUND : TEGULA_IO_ERROR,
                  std::string("cannot be opened: ") + std::strerror(errno));
  std::shared_ptr<Bundle> b(new Bundle);
  b->name_ = path;
  struct stat s;
  bool ok = fstat(fd, &s) == 0;
  const char *why = !ok                                            ? "cannot be read"
                    : !S_ISREG(s.st_mode)                          ? "is no file"
                    : s.st_size == 0                               ? "is empty"
                    : static_cast<uint64_t>(s.st_size) > sizeLimit ? "is too large"
                                                                   : nullptr;
  if (!why && !trusted && !key) why = untrusted(s, true);
  if (why) {
    close(fd);
    return failed(TEGULA_INVALID_ARGUMENT, why);
  }
  void *at = mmap(nullptr, static_cast<size_t>(s.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  int error = errno;
  close(fd);
  if (at == MAP_FAILED) return failed(TEGULA_IO_ERROR, std::string("cannot be mapped: ") + std::strerror(error));
  b->data_ = static_cast<const char *>(at);
  b->size_ = static_cast<size_t>(s.st_size);
  b->mapped_ = true;
  status = b->read(key);
  return status ? b : nullptr;
}

Bundle::~Bundle() {
  if (mapped_) munmap(const_cast<char *>(data_), size_);
}

std::span<const uint32_t> Bundle::ofClass(const Digest &classKey) const {
  auto it = classes_.find(classKey);
  return it == classes_.end() ? std::span<const uint32_t>() : it->second;
}

std::span<const uint32_t> Bundle::ofKernel(std::string_view kernel) const {
  auto it = kernels_.find(kernel);
  return it == kernels_.end() ? std::span<const uint32_t>() : it->second;
}

Status Bundle::bytesOf(const BundleEntry &e, uint64_t offset, uint64_t bytes, const Digest &hash, const char *what,
                       std::vector<char> &out) const {
  out.assign(data_ + offset, data_ + offset + padded(bytes));
  if (sha256(out) != hash)
    return Status::error(TEGULA_INVALID_ARGUMENT,
                         name_ + ": " + e.title() + " is damaged: its " + what + " was changed");
  out.resize(bytes);
  return Status::ok();
}

Status Bundle::record(size_t i, BundleRecord &out) const {
  const BundleEntry &e = entries_[i];
  if (std::string why; !e.isReadable(why))
    return Status::error(TEGULA_UNSUPPORTED, name_ + ": " + e.title() + " " + why);
  std::vector<char> bytes;
  if (Status s = bytesOf(e, e.recordOffset, e.recordBytes, e.recordHash, "record", bytes); !s) return s;
  out = {};
  if (!decodeRecord(bytes, out))
    return Status::error(TEGULA_INVALID_ARGUMENT, name_ + ": " + e.title() + " is damaged: its record makes no sense");
  return Status::ok();
}

Status Bundle::code(size_t i, std::vector<char> &out) const {
  const BundleEntry &e = entries_[i];
  return bytesOf(e, e.codeOffset, e.codeBytes, e.codeHash, "code", out);
}

Status Bundle::checkAll() const {
  // There are no gaps between the pieces: bytes outside of all entries would have no hash.
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const BundleEntry &e = entries_[i];
    std::vector<char> bytes;
    if (Status s = bytesOf(e, e.recordOffset, e.recordBytes, e.recordHash, "record", bytes); !s) return s;
    if (Status s = bytesOf(e, e.codeOffset, e.codeBytes, e.codeHash, "code", bytes); !s) return s;
    pieces.emplace_back(e.recordOffset, padded(e.recordBytes)), pieces.emplace_back(e.codeOffset, padded(e.codeBytes));
  }
  std::sort(pieces.begin(), pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  uint64_t covered = 0;
  for (auto [offset, bytes] : pieces) covered += bytes;
  uint64_t begin = pieces.empty() ? size_ : pieces.front().first;
  return covered == size_ - begin
             ? Status::ok()
             : Status::error(TEGULA_INVALID_ARGUMENT, name_ + " has bytes that belong to no entry");
}

// ---- writing

namespace {
/// The data after the index, as it grows; equal pieces are stored once.
struct Body {
  std::vector<char> bytes;
  std::map<Digest, uint64_t> pieces;
  /// Returns the offset in the body.
  uint64_t add(std::vector<char> piece, Digest &hash) {
    piece.resize(padded(piece.size()), 0);
    hash = sha256(piece);
    auto [it, isNew] = pieces.try_emplace(hash, bytes.size());
    if (isNew) bytes.insert(bytes.end(), piece.begin(), piece.end());
    return it->second;
  }
};
} // namespace

Status encodeBundle(std::vector<NewBundleEntry> list, const SecretKey *sign, std::vector<char> &out) {
  std::vector<std::pair<uint32_t, NewBundleEntry *>> sorted;
  for (NewBundleEntry &e : list) sorted.emplace_back(static_cast<uint32_t>(sorted.size()), &e);
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
    return std::tie(a.second->kernel, a.first) < std::tie(b.second->kernel, b.first);
  });
  std::set<std::tuple<std::string, Digest, std::string>> known;
  Body records, codes;
  std::vector<BundleEntry> entries;
  for (auto [order, e] : sorted) {
    if (!known.emplace(e->kernel, e->classKey, e->target).second) continue;
    BundleEntry &n = entries.emplace_back();
    n.kernel = e->kernel, n.target = e->target, n.needs = e->needs, n.classKey = e->classKey;
    n.version = entryVersion, n.abi = abiOf(e->target), n.order = order;
    std::vector<char> record = encodeRecord(e->record);
    n.recordBytes = record.size(), n.codeBytes = e->code.size();
    n.recordOffset = records.add(std::move(record), n.recordHash);
    n.codeOffset = codes.add(std::move(e->code), n.codeHash);
  }
  auto encodeIndex = [&] {
    ByteWriter w;
    w.u64(entries.size());
    for (const BundleEntry &e : entries) writeEntry(w, e);
    return std::move(w.bytes);
  };
  const uint64_t indexBytes = encodeIndex().size(), begin = Bundle::headerBytes + padded(indexBytes);
  for (BundleEntry &e : entries) e.recordOffset += begin, e.codeOffset += begin + records.bytes.size();
  std::vector<char> index = encodeIndex();
  index.resize(padded(indexBytes), 0);

  ByteWriter header;
  header.raw(magic, sizeof magic);
  header.u32(Bundle::formatVersion), header.u32(sign ? isSignedFlag : 0);
  header.u64(begin + records.bytes.size() + codes.bytes.size()), header.u64(indexBytes), header.u64(0);
  Digest indexHash = sha256(index);
  header.raw(indexHash.data(), indexHash.size());
  PublicKey signer{};
  std::array<uint8_t, 64> signature{};
  if (sign) std::copy(sign->end() - signer.size(), sign->end(), signer.begin());
  header.raw(signer.data(), signer.size());
  if (sign)
    if (Status s = signMessage({header.bytes.data(), header.bytes.size()}, *sign, signature); !s) return s;
  header.raw(signature.data(), signature.size());
  header.bytes.resize(headerHashAt, 0);
  Digest headerHash = sha256(header.bytes);
  header.raw(headerHash.data(), headerHash.size());

  out = std::move(header.bytes);
  for (const std::vector<char> *part : {&index, &records.bytes, &codes.bytes})
    out.insert(out.end(), part->begin(), part->end());
  return Status::ok();
}

Status writeBundle(const std::string &path, std::span<const char> bytes) {
  size_t slash = path.rfind('/');
  std::string temporary = path.substr(0, slash == path.npos ? 0 : slash + 1) + temporaryName(0);
  auto failed = [&] { return Status::error(TEGULA_IO_ERROR, path + " cannot be written: " + std::strerror(errno)); };
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return failed();
  bool ok = writeAll(fd, bytes.data(), bytes.size());
  ok &= close(fd) == 0;
  if (ok && rename(temporary.c_str(), path.c_str()) == 0) return Status::ok();
  Status s = failed();
  unlink(temporary.c_str());
  return s;
}

} // namespace tegula::runtime
