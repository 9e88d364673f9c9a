// The algebra of linear layouts (src/layout) for bindings: dimensions have names here and numbers there.
#include "api/Error.h"
#include "api/Sized.h"
#include "layout/LinearLayout.h"
#include <cstdlib>
#include <cstring>
#include <optional>

using namespace tegula;
using namespace tegula::api;
using layout::Dim;
using layout::DimBits;
using layout::DimList;
using layout::LinearLayout;

namespace {

constexpr size_t maxDims = layout::kMaxRank + 4; // of a DimList
constexpr uint32_t maxDimBits = 31;
constexpr unsigned maxOutBits = 63;

TegulaStatus wrong(const std::string &text) { return fail(TEGULA_INVALID_ARGUMENT, "linear layout: " + text); }

/// Names of one operation's dimensions by number.
struct Names {
  std::vector<std::string> list;
  Dim dim(const std::string &name) {
    size_t i = 0;
    while (i < list.size() && list[i] != name) ++i;
    if (i == list.size()) list.push_back(name);
    return static_cast<Dim>(i);
  }
  const std::string &operator[](Dim d) const { return list[static_cast<size_t>(d)]; }
};

TegulaStatus readDims(const TegulaLayoutDim *dims, size_t count, unsigned limit, Names &names, DimList &out) {
  if (count > maxDims)
    return wrong("there are " + std::to_string(count) + " dimensions; at most " + std::to_string(maxDims) +
                 " are possible");
  for (size_t i = 0; i < count; ++i) {
    if (!dims || !dims[i].name) return wrong("a dimension has no name");
    if (dims[i].bits > maxDimBits)
      return wrong("`" + std::string(dims[i].name) + "` has 2^" + std::to_string(dims[i].bits) +
                   " values; 2^31 are possible");
    Dim d = names.dim(dims[i].name);
    if (out.has(d)) return wrong("dimension `" + names[d] + "` is there twice");
    out.push({d, static_cast<uint8_t>(dims[i].bits)});
  }
  if (out.totalBits() > limit)
    return wrong("its dimensions have 2^" + std::to_string(out.totalBits()) + " values; 2^" + std::to_string(limit) +
                 " are possible");
  return TEGULA_OK;
}

TegulaStatus read(const TegulaLayout *caller, Names &names, LinearLayout &out) {
  TegulaLayout full{};
  const TegulaLayout *given = &full;
  if (!takeSized(caller, full)) return wrong("null argument or `size` not set");
  DimList ins, outs;
  if (TegulaStatus s = readDims(given->ins, given->in_count, LinearLayout::kMaxInBits, names, ins)) return s;
  if (TegulaStatus s = readDims(given->outs, given->out_count, maxOutBits, names, outs)) return s;
  std::vector<uint64_t> bases;
  const uint32_t *at = given->bases;
  if (!at && ins.totalBits() && outs.size()) return wrong("its bases are missing");
  for (unsigned i = 0; i < ins.totalBits(); ++i) {
    uint64_t flat = 0;
    for (DimBits d : outs) {
      if (uint64_t(*at) >> d.bits)
        return wrong("a basis has " + std::to_string(*at) + " in `" + names[d.dim] + "`, which has " +
                     std::to_string(d.size()) + " values");
      flat |= outs.flat(d.dim, *at++);
    }
    bases.push_back(flat);
  }
  out = LinearLayout(ins, outs, bases);
  return TEGULA_OK;
}

/// One block of memory.
TegulaLayout *make(const LinearLayout &l, const Names &names) {
  size_t dims = l.ins().size() + l.outs().size(), text = 0, words = size_t(l.totalInBits()) * l.outs().size();
  for (const DimList *list : {&l.ins(), &l.outs()})
    for (DimBits d : *list) text += names[d.dim].size() + 1;
  char *block = static_cast<char *>(
      std::malloc(sizeof(TegulaLayout) + dims * sizeof(TegulaLayoutDim) + words * sizeof(uint32_t) + text));
  if (!block) return nullptr;
  auto *out = new (block) TegulaLayout{};
  auto *dim = reinterpret_cast<TegulaLayoutDim *>(out + 1);
  auto *word = reinterpret_cast<uint32_t *>(dim + dims);
  char *chars = reinterpret_cast<char *>(word + words);
  *out = {sizeof *out, dim, dim + l.ins().size(), l.ins().size(), l.outs().size(), word};
  for (const DimList *list : {&l.ins(), &l.outs()})
    for (DimBits d : *list) {
      const std::string &name = names[d.dim];
      std::memcpy(chars, name.c_str(), name.size() + 1);
      *dim++ = {chars, d.bits};
      chars += name.size() + 1;
    }
  for (uint64_t b : l.bases())
    for (DimBits d : l.outs()) *word++ = l.outs().part(b, d.dim);
  return out;
}

// ---- operations; each checks the preconditions of the algebra

struct Operation {
  Names &names;
  std::optional<LinearLayout> result;
  TegulaStatus status = TEGULA_OK;

  /// Is every dimension of `a` in `b`, and not larger?
  bool within(const DimList &a, const DimList &b, const char *what) {
    for (DimBits d : a)
      if (!b.has(d.dim) || b.bits(d.dim) < d.bits) {
        status =
            wrong("output `" + names[d.dim] + "`, of " + std::to_string(d.size()) + " values, does not fit " + what);
        return false;
      }
    return true;
  }
};

void compose(Operation &o, const LinearLayout &a, const LinearLayout &b) {
  if (o.within(a.outs(), b.ins(), "the inputs of the outer layout")) o.result = a.compose(b);
}

void invert(Operation &o, const LinearLayout &a, const LinearLayout &) {
  if (!a.isInvertible()) o.status = wrong("it is not invertible");
  else o.result = a.invert();
}

void pseudoInvert(Operation &o, const LinearLayout &a, const LinearLayout &) {
  if (a.totalOutBits() > LinearLayout::kMaxInBits) o.status = wrong("it has too many outputs to become inputs");
  else o.result = a.pseudoInvert();
}

void invertAndCompose(Operation &o, const LinearLayout &a, const LinearLayout &b) {
  if (!o.within(a.outs(), b.outs(), "the outputs of the other layout")) return;
  layout::Subspace image;
  for (uint64_t v : b.bases()) image.insert(v, 0);
  for (uint64_t v : a.bases())
    if (!image.contains(a.outs().regroup(v, b.outs()))) {
      o.status = wrong("it has values that the other layout never gives");
      return;
    }
  o.result = a.invertAndCompose(b);
}

void multiply(Operation &o, const LinearLayout &a, const LinearLayout &b) {
  auto fits = [&](const DimList &x, const DimList &y, unsigned limit) {
    size_t count = x.size();
    for (DimBits d : y) {
      count += !x.has(d.dim);
      if (x.bits(d.dim) + d.bits > maxDimBits) return false;
    }
    return count <= maxDims && x.totalBits() + y.totalBits() <= limit;
  };
  if (!fits(a.ins(), b.ins(), LinearLayout::kMaxInBits) || !fits(a.outs(), b.outs(), maxOutBits))
    o.status = wrong("the product has too many values");
  else o.result = a * b;
}

void quotient(Operation &o, std::optional<LinearLayout> q) {
  if (q) o.result = *q;
  else o.status = fail(TEGULA_NOT_FOUND, "linear layout: it is no product with that factor");
}
void divideLeft(Operation &o, const LinearLayout &a, const LinearLayout &b) { quotient(o, a.divideLeft(b)); }
void divideRight(Operation &o, const LinearLayout &a, const LinearLayout &b) { quotient(o, a.divideRight(b)); }

struct Row {
  const char *name;
  bool isBinary;
  void (*run)(Operation &o, const LinearLayout &a, const LinearLayout &b);
};
constexpr Row rows[] = {{"compose", true, compose},
                        {"invert", false, invert},
                        {"pseudoinvert", false, pseudoInvert},
                        {"invert_and_compose", true, invertAndCompose},
                        {"multiply", true, multiply},
                        {"divide_left", true, divideLeft},
                        {"divide_right", true, divideRight}};

} // namespace

TegulaStatus tegula_layout_operate(const char *operation, const TegulaLayout *a, const TegulaLayout *b,
                                   TegulaLayout **out) {
  if (!operation || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_layout_operate: null argument");
  for (const Row &row : rows) {
    if (std::strcmp(row.name, operation) != 0) continue;
    Names names;
    LinearLayout x, y;
    if (TegulaStatus s = read(a, names, x)) return s;
    if (TegulaStatus s = row.isBinary ? read(b, names, y) : TEGULA_OK) return s;
    Operation o{names, {}};
    row.run(o, x, y);
    if (o.status != TEGULA_OK) return o.status;
    TegulaLayout *made = o.result ? make(*o.result, names) : nullptr;
    if (!made) return fail(TEGULA_OUT_OF_RESOURCES, "no memory for a layout");
    *out = made;
    return TEGULA_OK;
  }
  return fail(TEGULA_NOT_FOUND, "linear layouts have no operation `" + std::string(operation) + "`");
}

TegulaStatus tegula_layout_rank(const TegulaLayout *given, uint32_t *out) {
  if (!out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_layout_rank: null argument");
  Names names;
  LinearLayout l;
  if (TegulaStatus s = read(given, names, l)) return s;
  *out = l.rank();
  return TEGULA_OK;
}
