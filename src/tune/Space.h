// A space of configurations: a product of axes, each with a name and values, less what a constraint refuses.
//
//   BM = powers(32, 128), num_warps = 4, 8; where BM * num_warps <= 512      (32, 4) (32, 8) (64, 4) (64, 8) (128, 4)
//
// Values are texts here, whatever they stand for; what is searched (Search.h) is points: indices of values.
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

/// The values of a text: items separated by commas, each of them one value, or powers(16, 128) for 16, 32, 64, 128, or
/// range(1, 4) for 1, 2, 3, or range(0, 64, 16) for 0, 16, 32, 48. False with a message: there are none, or more than
/// 4096.
bool parseValues(std::string_view text, std::vector<std::string> &out, std::string &error);

/// Of each axis the index of a value.
using Point = std::vector<uint32_t>;

struct Space {
  static constexpr size_t mostPoints = 100000;
  std::vector<Axis> axes;

  /// All points in order, the last axis changing fastest, as far as `where` (unless null) says that they are: 1, 0, or
  /// nullopt, which ends it. False with a message: there are more than mostPoints or none, an axis has no value, two
  /// have one name; or `where` ended it, then without.
  bool points(const std::function<std::optional<bool>(const Point &)> &where, std::vector<Point> &out,
              std::string &error) const;
};

} // namespace tegula::tune
