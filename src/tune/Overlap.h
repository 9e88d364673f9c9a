// Times that overlap, but not perfectly. Of this layer only.
#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace tegula::tune {

/// A little more than the largest of them: the power mean's numerator, the larger `power` the closer to the largest.
inline double overlapped(std::initializer_list<double> parts, double power = 4) {
  double most = 0, sum = 0;
  for (double p : parts) most = std::max(most, p);
  if (most <= 0) return 0;
  for (double p : parts) sum += std::pow(std::max(p, 0.0) / most, power);
  return most * std::pow(sum, 1 / power);
}

} // namespace tegula::tune
