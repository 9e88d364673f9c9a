// A space of configurations: a product of axes, each with a name and values, restricted by a constraint.
//
//   BM = powers(32, 128), num_warps = 4, 8; where BM * num_warps <= 512      (32, 4) (32, 8) (64, 4) (64, 8) (128, 4)
//
// Values are texts here, whatever they mean; the search (Search.h) works on points: indices of values.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::tune {

struct Axis {
  std::string name;
  std::vector<std::string> values;
};

/// The values of a text: items separated by commas. Each is one value, or powers(16, 128) for 16, 32, 64, 128, or
/// range(1, 4) for 1, 2, 3, or range(0, 64, 16) for 0, 16, 32, 48. False with a message: there are none, or more than
/// 4096.
bool parseValues(std::string_view text, std::vector<std::string> &out, std::string &error);

/// The index of a value on each axis.
using Point = std::vector<uint32_t>;

struct Space {
  static constexpr size_t mostPoints = 100000;
  std::vector<Axis> axes;

  /// All points in order, the last axis changing fastest, for which `where` (unless null) returns 1, not 0; nullopt
  /// from `where` ends it. False with a message: there are no points or more than mostPoints, an axis has no value, or
  /// two axes have the same name. False without a message: `where` ended it.
  bool points(const std::function<std::optional<bool>(const Point &)> &where, std::vector<Point> &out,
              std::string &error) const;
};

} // namespace tegula::tune
