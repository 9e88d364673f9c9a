// device_print text, and numbers from elements.
#include "runtime/Print.h"
#include "support/FloatFormat.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tegula::runtime {

static FloatKind kindOf(TegulaDtype d) { return static_cast<FloatKind>(d - TEGULA_FP8E5); }
static_assert(TEGULA_FP64 - TEGULA_FP8E5 == static_cast<int>(FloatKind::F64) &&
              TEGULA_FP16 - TEGULA_FP8E5 == static_cast<int>(FloatKind::F16));

double floatFromBits(TegulaDtype d, uint64_t bits) { return decodeFloat(kindOf(d), bits); }
uint64_t floatToBits(TegulaDtype d, double v) { return encodeFloat(kindOf(d), v); }

static std::string element(const PrintOperand &o, bool hex, const void *data, int64_t i) {
  const DtypeInfo &t = dtypeInfo(o.dtype);
  unsigned bytes = o.isPtr ? 8 : t.bytes;
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char *>(data) + i * bytes, bytes);
  char buffer[400];
  if (o.isPtr) {
    snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(bits));
  } else if (hex) {
    snprintf(buffer, sizeof buffer, "0x%0*llx", int(t.bits + 3) / 4, static_cast<unsigned long long>(bits));
  } else if (t.kind == DtypeInfo::Float) {
    double v = floatFromBits(o.dtype, bits);
    if (std::isnan(v)) return "nan";
    snprintf(buffer, sizeof buffer, "%f", v);
  } else if (t.kind == DtypeInfo::Signed) {
    int shift = 64 - t.bits;
    snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(static_cast<int64_t>(bits << shift) >> shift));
  } else {
    snprintf(buffer, sizeof buffer, "%llu", static_cast<unsigned long long>(bits));
  }
  return buffer;
}

/// The language's normal form: with operands a prefix ends in ": ", and one with text starts with a blank.
static std::string normalPrefix(std::string p, bool operands) {
  if (operands) {
    while (!p.empty() && p.back() == ' ') p.pop_back();
    if (p.empty() || p.back() != ':') p += ':';
    p += ' ';
  }
  if ((p.size() > 2 || !operands) && !p.empty() && p[0] != ' ') p.insert(0, 1, ' ');
  return p;
}

namespace {
/// The parts that all lines of one operand share.
struct Line {
  const PrintOperand *operand = nullptr; // null: the site prints only its prefix
  std::string head, prefix;
  std::vector<int> width; // of the indices
  int64_t numel = 1;

  Line(const SiteInfo &site, int32_t which, const int32_t pid[3])
      : head("pid (" + std::to_string(pid[0]) + ", " + std::to_string(pid[1]) + ", " + std::to_string(pid[2]) + ")"),
        prefix(normalPrefix(site.text, !site.operands.empty())) {
    if (which < 0 || static_cast<size_t>(which) >= site.operands.size()) return;
    operand = &site.operands[which];
    if (site.operands.size() > 1) prefix += "(operand " + std::to_string(which) + ") ";
    for (int64_t n : operand->shape) {
      width.push_back(static_cast<int>(std::to_string(n - 1).size()));
      numel *= n;
    }
  }
  void append(std::string &text, const std::vector<int64_t> &index, const std::string &value) const {
    text += head + " idx (";
    for (size_t k = 0; k < index.size(); ++k) {
      std::string n = std::to_string(index[k]);
      text += k ? ", " : "";
      text.append(width[k] - static_cast<int>(n.size()), ' ');
      text += n;
    }
    text += ")" + prefix + value + "\n";
  }
};
} // namespace

std::string printText(const SiteInfo &site, int32_t operand, const int32_t pid[3], const void *data, int64_t count) {
  Line line(site, operand, pid);
  if (!line.operand) return line.head + line.prefix + "\n";
  if (line.operand->dtype >= dtypeCount) return {};
  std::string text;
  std::vector<int64_t> index(line.width.size(), 0);
  for (int64_t i = 0; i < count && i < line.numel; ++i) {
    line.append(text, index, element(*line.operand, site.hex, data, i));
    for (size_t k = index.size(); k-- > 0 && ++index[k] == line.operand->shape[k];) index[k] = 0;
  }
  return text;
}

std::string printElement(const SiteInfo &site, int32_t operand, const int32_t pid[3], int64_t at, uint64_t bits) {
  Line line(site, operand, pid);
  if (!line.operand) return line.head + line.prefix + "\n";
  if (line.operand->dtype >= dtypeCount || at < 0 || at >= line.numel) return {};
  std::vector<int64_t> index(line.width.size(), 0);
  for (size_t k = index.size(); k-- > 0; at /= line.operand->shape[k]) index[k] = at % line.operand->shape[k];
  std::string text;
  line.append(text, index, element(*line.operand, site.hex, &bits, 0));
  return text;
}

} // namespace tegula::runtime
