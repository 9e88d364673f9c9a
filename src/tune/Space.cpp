#include "tune/Space.h"
#include "support/Expr.h"
#include <algorithm>

namespace tegula::tune {

namespace {
constexpr size_t mostValues = 4096;

struct Series {
  const char *name;
  size_t least, most;  // arguments
  const char *syntax;
};
constexpr Series series[] = {{"powers", 2, 2, "powers takes (first, last)"},
                             {"range", 2, 3, "range takes (first, end) or (first, end, step)"}};

/// The series whose name and parenthesis begin the item; null: there is none.
const Series *seriesOf(const std::string &item) {
  size_t open = item.find('(');
  if (open == std::string::npos || item.back() != ')') return nullptr;
  auto row = std::find_if(std::begin(series), std::end(series),
                          [&](const Series &s) { return item.compare(0, open, s.name) == 0; });
  return row == std::end(series) ? nullptr : row;
}

bool expand(const Series &s, const std::string &item, std::vector<std::string> &out, std::string &error) {
  std::vector<int64_t> bounds;
  size_t open = item.find('(');
  NameLookup none = [](std::string_view) { return std::nullopt; };
  for (const std::string &bound : splitList(std::string_view(item).substr(open + 1, item.size() - open - 2))) {
    std::optional<int64_t> v = evaluate(bound, none, error);
    if (!v) return false;
    bounds.push_back(*v);
  }
  if (bounds.size() < s.least || bounds.size() > s.most) return error = s.syntax, false;
  bool powers = s.name[0] == 'p';
  int64_t step = bounds.size() == 3 ? bounds[2] : 1;
  if (powers ? bounds[0] < 1 : step < 1) return error = "`" + item + "` has no end", false;
  for (int64_t v = bounds[0]; powers ? v <= bounds[1] : v < bounds[1];) {
    if (out.size() == mostValues)
      return error = "`" + item + "` has more than " + std::to_string(mostValues) + " values", false;
    out.push_back(std::to_string(v));
    if (__builtin_add_overflow(v, powers ? v : step, &v)) break;
  }
  return true;
}
} // namespace

bool parseValues(std::string_view text, std::vector<std::string> &out, std::string &error) {
  error.clear();
  for (const std::string &item : splitList(text)) {
    if (const Series *s = item.empty() ? nullptr : seriesOf(item)) {
      if (!expand(*s, item, out, error)) return false;
    } else if (!item.empty()) {
      out.push_back(item);
    }
  }
  return !out.empty() || (error = "there are no values", false);
}

bool Space::points(const std::function<std::optional<bool>(const Point &)> &where, std::vector<Point> &out,
                   std::string &error) const {
  error.clear();
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].values.empty()) return error = "`" + axes[a].name + "` has no values", false;
    for (size_t b = 0; b < a; ++b)
      if (axes[a].name == axes[b].name) return error = "there are two axes `" + axes[a].name + "`", false;
  }
  Point at(axes.size(), 0);
  for (bool more = true; more;) {
    std::optional<bool> holds = where ? where(at) : true;
    if (!holds) return false;
    if (*holds) out.push_back(at);
    if (out.size() > mostPoints)
      return error = "there are more than " + std::to_string(mostPoints) + " configurations", false;
    more = false;
    for (size_t a = axes.size(); a-- > 0 && !more;) {
      more = ++at[a] < axes[a].values.size();
      if (!more) at[a] = 0;
    }
  }
  return !out.empty() || (error = "the constraint leaves no configuration", false);
}

} // namespace tegula::tune
