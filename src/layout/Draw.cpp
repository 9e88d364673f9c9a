// Text of a layout: its bases on one line, and the tile with the place that holds each element.
#include "layout/LinearLayout.h"
#include <algorithm>

namespace tegula::layout {

std::string toString(Dim d) {
  static constexpr const char *names[] = {"register", "lane", "warp", "block",
                                          "offset", "iteration", "segment", "bank"};
  return isTensorDim(d) ? "dim" + std::to_string(axisOf(d)) : names[static_cast<unsigned>(d)];
}

/// Names in the order of the enum, in which coordinates are printed.
static std::vector<Dim> sorted(const DimList &dims) {
  std::vector<Dim> names;
  for (DimBits d : dims)
    names.push_back(d.dim);
  std::sort(names.begin(), names.end());
  return names;
}

std::string LinearLayout::print() const {
  std::vector<Dim> outNames = sorted(outs_);
  std::string text;
  for (DimBits in : ins_) {
    text += (text.empty() ? "" : "; ") + toString(in.dim) + ":";
    for (uint64_t b : bases(in.dim)) {
      std::string coords;
      for (Dim d : outNames)
        coords += (coords.empty() ? "" : ",") + std::to_string(outs_.part(b, d));
      text += outNames.size() == 1 ? " " + coords : " (" + coords + ")";
    }
    if (in.bits == 0)
      text += " -";
  }
  text += text.empty() ? "->" : " ->";
  const char *sep = " ";
  for (Dim d : outNames) {
    text += sep + toString(d) + " " + std::to_string(outSize(d));
    sep = ", ";
  }
  return text;
}

namespace {

/// Every place that holds each element, as text; one cell per flat output value.
struct Cells {
  std::vector<std::string> text;
  std::vector<unsigned> holders;
  size_t width = 2; // "-" for elements without a place
  std::string legend;
};

Cells cellsOf(const LinearLayout &layout) {
  Cells cells;
  cells.text.resize(size_t{1} << layout.totalOutBits());
  cells.holders.resize(cells.text.size());
  std::vector<DimBits> dims;
  for (DimBits d : layout.ins())
    if (d.bits > 0)
      dims.insert(dims.begin(), d);
  for (DimBits d : dims)
    cells.legend += (cells.legend.empty() ? "" : ".") + toString(d.dim);
  for (uint64_t in = 0; in < uint64_t{1} << layout.totalInBits(); ++in) {
    uint64_t out = layout.apply(in);
    if (cells.holders[out]++ > 0)
      continue;
    std::string &cell = cells.text[out];
    for (DimBits d : dims) {
      std::string value = std::to_string(layout.ins().part(in, d.dim));
      cell += (cell.empty() ? "" : ".") +
              std::string(std::to_string(d.size() - 1).size() - value.size(), ' ') + value;
    }
    cells.width = std::max(cells.width, cell.size() + 1);
  }
  return cells;
}

} // namespace

// The picture of a layout is one line per row of the tensor (last axis across, the other axes down). A cell names the
// first place that holds the element, outermost index first ("warp.lane.register"); "+" after it says that copies exist
// elsewhere, "-" that nobody holds it.
std::string LinearLayout::draw(unsigned maxCells) const {
  if (totalInBits() > 22 || totalOutBits() > 22)
    return "too large to draw: " + print() + "\n";
  Cells cells = cellsOf(*this);
  std::vector<Dim> names = sorted(outs_);
  int64_t columns = names.empty() ? 1 : outSize(names.back()), rows = (int64_t{1} << totalOutBits()) / columns;
  std::string text = "cell = " + (cells.legend.empty() ? "everything" : cells.legend) + "\n";
  for (int64_t r = 0; r < std::min<int64_t>(rows, maxCells); ++r) {
    uint64_t rest = static_cast<uint64_t>(r), base = 0;
    for (size_t i = names.size(); i-- > 0;) {
      if (i + 1 == names.size())
        continue;
      base |= outs_.flat(names[i], rest & (static_cast<uint64_t>(outSize(names[i])) - 1));
      rest >>= outBits(names[i]);
    }
    std::string line;
    for (int64_t c = 0; c < std::min<int64_t>(columns, maxCells); ++c) {
      uint64_t at = base | (names.empty() ? 0 : outs_.flat(names.back(), static_cast<uint64_t>(c)));
      std::string cell = cells.holders[at] == 0 ? "-" : cells.text[at];
      line += std::string(cells.width - cell.size() - 1, ' ') + cell + (cells.holders[at] > 1 ? "+" : " ") + " ";
    }
    while (!line.empty() && line.back() == ' ')
      line.pop_back();
    text += line + (columns > maxCells ? " ..." : "") + "\n";
  }
  return text + (rows > maxCells ? "...\n" : "");
}

} // namespace tegula::layout
