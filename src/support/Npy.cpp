// The .npy format: magic, version, a Python dict literal with descr, fortran_order, shape; then the raw elements.
#include "support/Npy.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tegula {
namespace {

struct DescrRow {
  const char *descr; // without byte order
  const char *dtype;
  unsigned bytes;
  bool ambiguous;
};
// ml_dtypes: numpy 2 writes '<V2', '<V1' and '<f1' for its extension types (without names), so the type of a 1-byte
// opaque element is a guess.
constexpr DescrRow descrTable[] = {
    {"b1", "i1", 1, false},   {"i1", "i8", 1, false},    {"i2", "i16", 2, false},  {"i4", "i32", 4, false},
    {"i8", "i64", 8, false},  {"u1", "u8", 1, false},    {"u2", "u16", 2, false},  {"u4", "u32", 4, false},
    {"u8", "u64", 8, false},  {"f2", "fp16", 2, false},  {"f4", "fp32", 4, false}, {"f8", "fp64", 8, false},
    {"V2", "bf16", 2, false}, {"f1", "fp8e5", 1, false}, {"V1", "fp8e4nv", 1, true},
};

// Parses the header's dict literal: only the subset that the format allows.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view s) : s_(s) {}
  bool eat(char c) {
    skip();
    if (pos_ < s_.size() && s_[pos_] == c) {
      ++pos_;
      return true;
    }
    return false;
  }
  bool string(std::string &out) {
    skip();
    if (pos_ >= s_.size() || (s_[pos_] != '\'' && s_[pos_] != '"')) return false;
    char q = s_[pos_++];
    out.clear();
    while (pos_ < s_.size() && s_[pos_] != q) out += s_[pos_++];
    return pos_ < s_.size() && (++pos_, true);
  }
  bool boolean(bool &out) {
    skip();
    for (auto [word, v] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (s_.substr(pos_, std::strlen(word)) == word) {
        pos_ += std::strlen(word);
        out = v;
        return true;
      }
    }
    return false;
  }
  bool shape(std::vector<int64_t> &out) {
    if (!eat('(')) return false;
    while (!eat(')')) {
      skip();
      int64_t v = 0;
      size_t start = pos_;
      while (pos_ < s_.size() && s_[pos_] >= '0' && s_[pos_] <= '9') {
        if (v > (INT64_MAX - 9) / 10) return false;
        v = v * 10 + (s_[pos_++] - '0');
      }
      if (pos_ == start || out.size() >= 32) return false;
      if (pos_ < s_.size() && s_[pos_] == 'L') ++pos_; // the suffix of Python 2's long ints
      out.push_back(v);
      if (!eat(',')) {
        if (!eat(')')) return false;
        break;
      }
    }
    return true;
  }

private:
  void skip() {
    while (pos_ < s_.size() && (s_[pos_] == ' ' || s_[pos_] == '\n' || s_[pos_] == '\t')) ++pos_;
  }
  std::string_view s_;
  size_t pos_ = 0;
};

bool parseHeader(std::string_view header, std::string &descr, bool &fortran, std::vector<int64_t> &shape) {
  HeaderReader r(header);
  bool haveDescr = false, haveOrder = false, haveShape = false;
  if (!r.eat('{')) return false;
  while (!r.eat('}')) {
    std::string key;
    if (!r.string(key) || !r.eat(':')) return false;
    if (key == "descr") haveDescr = r.string(descr);
    else if (key == "fortran_order") haveOrder = r.boolean(fortran);
    else if (key == "shape") haveShape = r.shape(shape);
    else return false;
    if (!r.eat(',') ) {
      if (!r.eat('}')) return false;
      break;
    }
  }
  return haveDescr && haveOrder && haveShape;
}

void swapBytes(std::vector<char> &data, unsigned width) {
  for (size_t i = 0; i + width <= data.size(); i += width) std::reverse(data.begin() + i, data.begin() + i + width);
}

// Column-major to row-major.
std::vector<char> toRowMajor(const std::vector<char> &in, const std::vector<int64_t> &shape, unsigned width) {
  std::vector<char> out(in.size());
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t dst = 0; dst * width < out.size(); ++dst) {
    int64_t src = 0;
    for (size_t d = shape.size(); d-- > 0;) src = src * shape[d] + index[d];
    std::memcpy(&out[dst * width], &in[src * width], width);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

} // namespace

int64_t NpyArray::count() const {
  // Zeros first: the product of the others need not fit.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

bool parseNpy(std::string_view bytes, NpyArray &out, std::string &error) {
  if (bytes.size() < 10 || bytes.substr(0, 6) != "\x93NUMPY") {
    error = "not a .npy file (it does not start with \\x93NUMPY)";
    return false;
  }
  auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])); };
  unsigned major = byte(6);
  size_t headerStart = major == 1 ? 10 : 12;
  if (major < 1 || major > 3 || bytes.size() < headerStart) {
    error = "unsupported .npy version " + std::to_string(major);
    return false;
  }
  size_t headerSize = byte(8) | byte(9) << 8;
  if (major > 1) headerSize |= static_cast<size_t>(byte(10)) << 16 | static_cast<size_t>(byte(11)) << 24;
  if (headerSize > bytes.size() - headerStart) {
    error = "the header is cut off";
    return false;
  }
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
  if (!parseHeader(bytes.substr(headerStart, headerSize), descr, fortran, shape)) {
    error = "the header is not a dict of descr, fortran_order and shape";
    return false;
  }
  bool bigEndian = !descr.empty() && descr[0] == '>';
  std::string bare = descr;
  if (!bare.empty() && std::strchr("<>|=", bare[0])) bare.erase(0, 1);
  const DescrRow *row =
      std::find_if(std::begin(descrTable), std::end(descrTable), [&](auto &r) { return bare == r.descr; });
  if (row == std::end(descrTable)) {
    error = "elements of type `" + descr + "` are not supported";
    return false;
  }
  uint64_t have = bytes.size() - headerStart - headerSize;
  uint64_t need = row->bytes;
  for (int64_t d : shape) {
    if (d != 0 && need > UINT64_MAX / static_cast<uint64_t>(d)) need = UINT64_MAX;
    else need *= static_cast<uint64_t>(d);
  }
  if (need > have) {
    error = "the file is cut off: its shape needs " + std::to_string(need) + " bytes, " + std::to_string(have) +
            " are there";
    return false;
  }
  out.dtype = row->dtype;
  out.ambiguous = row->ambiguous;
  out.elementBytes = row->bytes;
  out.shape = std::move(shape);
  const char *begin = bytes.data() + headerStart + headerSize;
  out.data.assign(begin, begin + need);
  if (bigEndian && row->bytes > 1) swapBytes(out.data, row->bytes);
  if (fortran && out.shape.size() > 1 && need) out.data = toRowMajor(out.data, out.shape, row->bytes);
  return true;
}

std::string formatNpy(const NpyArray &a) {
  const char *descr = "V1";
  for (auto &r : descrTable)
    if (a.dtype == r.dtype) descr = r.descr;
  std::string header = std::string("{'descr': '") +
                       (a.elementBytes == 1 && descr[0] != 'V' && descr[0] != 'f' ? "|" : "<") + descr +
                       "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < a.shape.size(); ++i)
    header += std::to_string(a.shape[i]) + (a.shape.size() == 1 ? "," : i + 1 < a.shape.size() ? ", " : "");
  header += "), }";
  // The data begin at a multiple of 64 bytes.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(a.data.data(), a.data.size());
  return out;
}

/// /dev/zero and similar devices have no end.
constexpr size_t deviceLimit = size_t(64) << 20;

bool readFile(const std::string &path, std::string &out, std::string &error, size_t limit) {
  struct stat st;
  FILE *f = std::fopen(path.c_str(), "rb");
  if (!f || fstat(fileno(f), &st) != 0 || S_ISDIR(st.st_mode)) {
    error = "cannot read `" + path + "`: " + (f && S_ISDIR(st.st_mode) ? "it is a directory" : std::strerror(errno));
    if (f) std::fclose(f);
    return false;
  }
  out.clear();
  char buffer[1 << 16];
  size_t n;
  bool isDevice = S_ISCHR(st.st_mode);
  if (isDevice) limit = std::min(limit, deviceLimit);
  bool tooMuch = S_ISREG(st.st_mode) && static_cast<size_t>(st.st_size) > limit;
  while (!tooMuch && (n = std::fread(buffer, 1, sizeof buffer, f)) > 0) {
    out.append(buffer, n);
    tooMuch = out.size() > limit;
  }
  bool ok = !tooMuch && !std::ferror(f);
  if (!ok) {
    error = "cannot read `" + path + "`: ";
    error += tooMuch
                 ? (isDevice ? "the device gives" : "it has") + (" more than " + std::to_string(limit >> 20) + " MiB")
                 : std::strerror(errno);
    out = {};
  }
  std::fclose(f);
  return ok;
}

bool writeFile(const std::string &path, std::string_view bytes, std::string &error) {
  // Devices and pipes cannot be replaced by a rename; they are written directly.
  struct stat st;
  bool special = stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode);
  std::string temp = special ? path : path + ".tmp" + std::to_string(getpid());
  auto fail = [&](const char *what) {
    error = std::string(what) + " `" + path + "`: " + std::strerror(errno);
    if (!special) unlink(temp.c_str());
    return false;
  };
  FILE *f = std::fopen(temp.c_str(), "wb");
  if (!f) return fail("cannot write");
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
  if (std::fclose(f) != 0 || !ok) return fail("cannot write");
  if (!special && std::rename(temp.c_str(), path.c_str()) != 0) return fail("cannot write");
  return true;
}

} // namespace tegula
