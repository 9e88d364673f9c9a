// See Parse.h.
#include "layout/Parse.h"
#include "support/Bits.h"
#include <charconv>

namespace tegula::layout {

namespace {

struct InputText {
  Dim dim;
  std::vector<std::vector<int64_t>> images; // of its bits, lowest first, each as coordinates
};

class Reader {
public:
  explicit Reader(std::string_view text) : text_(text) {}
  std::optional<LinearLayout> layout();

  std::string why;
  size_t at = 0;

private:
  void skip() {
    while (at < text_.size() && text_[at] == ' ')
      ++at;
  }
  bool accept(std::string_view what) {
    skip();
    bool is = text_.substr(at, what.size()) == what;
    at += is ? what.size() : 0;
    return is;
  }
  bool fail(std::string expected) {
    why = std::move(expected);
    return false;
  }
  bool expect(std::string_view what) { return accept(what) || fail("`" + std::string(what) + "`"); }
  bool number(int64_t &n);
  bool dim(Dim &d);
  bool image(std::vector<int64_t> &coordinates);
  bool inputEnds() {
    skip();
    return at == text_.size() || text_[at] == ';' || text_.substr(at, 2) == "->";
  }
  bool inputs();
  bool outputs();
  std::optional<LinearLayout> build();

  std::string_view text_;
  std::vector<InputText> ins_;
  Extents shape_;
};

bool Reader::number(int64_t &n) {
  skip();
  auto r = std::from_chars(text_.data() + at, text_.data() + text_.size(), n);
  if (r.ec != std::errc() || n < 0)
    return fail("a number");
  at = static_cast<size_t>(r.ptr - text_.data());
  return true;
}

bool Reader::dim(Dim &d) {
  skip();
  size_t end = at;
  while (end < text_.size() && ((text_[end] >= 'a' && text_[end] <= 'z') || (text_[end] >= '0' && text_[end] <= '9')))
    ++end;
  for (unsigned i = 0; i < static_cast<unsigned>(Dim::Dim0) + kMaxRank; ++i)
    if (text_.substr(at, end - at) == toString(static_cast<Dim>(i))) {
      d = static_cast<Dim>(i);
      at = end;
      return true;
    }
  return fail("the name of a dimension");
}

bool Reader::image(std::vector<int64_t> &coordinates) {
  int64_t n = 0;
  if (!accept("(")) {
    bool ok = number(n);
    coordinates.push_back(n);
    return ok;
  }
  do {
    if (!number(n))
      return false;
    coordinates.push_back(n);
  } while (accept(","));
  return expect(")");
}

bool Reader::inputs() {
  if (accept("->"))
    return true;
  do {
    InputText &in = ins_.emplace_back();
    if (!dim(in.dim) || !expect(":"))
      return false;
    for (size_t i = 0; i + 1 < ins_.size(); ++i)
      if (ins_[i].dim == in.dim)
        return fail("another dimension");
    if (isTensorDim(in.dim))
      return fail("an index of the hardware");
    if (inputEnds())
      return fail("`-` or bases");
    if (accept("-"))
      continue;
    while (!inputEnds())
      if (!image(in.images.emplace_back()))
        return false;
  } while (accept(";"));
  return expect("->");
}

bool Reader::outputs() {
  do {
    Dim d;
    int64_t size = 0;
    skip();
    size_t begin = at;
    if (!dim(d))
      return false;
    if (d != tensorDim(shape_.rank())) {
      at = begin;
      return fail("`" + toString(tensorDim(shape_.rank())) + "`");
    }
    skip();
    begin = at;
    if (!number(size))
      return false;
    if (!isPowerOfTwo(size) || size > INT32_MAX) {
      at = begin;
      return fail("a power of two");
    }
    shape_.push(size);
  } while (shape_.rank() < kMaxRank && accept(","));
  skip();
  return at == text_.size() || fail("the end of the layout");
}

std::optional<LinearLayout> Reader::build() {
  DimList outs = tensorDims(shape_), ins;
  std::vector<uint64_t> bases;
  size_t inBits = 0;
  for (const InputText &in : ins_)
    inBits += in.images.size();
  if (inBits > LinearLayout::kMaxInBits || outs.totalBits() > LinearLayout::kMaxInBits)
    return fail("fewer bits"), std::nullopt;
  for (const InputText &in : ins_) {
    ins.push({in.dim, static_cast<uint8_t>(in.images.size())});
    for (const std::vector<int64_t> &image : in.images) {
      uint64_t flat = 0;
      if (image.size() != shape_.rank())
        return fail("as many coordinates as there are dimensions"), std::nullopt;
      for (unsigned i = 0; i < image.size(); ++i) {
        if (image[i] >= shape_[i])
          return fail("coordinates within the shape"), std::nullopt;
        flat |= outs.flat(tensorDim(i), static_cast<uint64_t>(image[i]));
      }
      bases.push_back(flat);
    }
  }
  return LinearLayout(ins, outs, bases);
}

std::optional<LinearLayout> Reader::layout() {
  if (!inputs() || !outputs())
    return std::nullopt;
  return build();
}

} // namespace

std::optional<LinearLayout> parse(std::string_view text, std::string &why, size_t &at) {
  Reader r(text);
  std::optional<LinearLayout> l = r.layout();
  why = r.why;
  at = r.at;
  return l;
}

} // namespace tegula::layout
