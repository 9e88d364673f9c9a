// Times that overlap imperfectly. Internal to this layer.
#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace tegula::tune {

/// A little more than the largest time: their power norm, which approaches the largest as `power` grows.
inline double overlapped(std::initializer_list<double> parts, double power = 4) {
  double most = 0, sum = 0;
  for (double p : parts) most = std::max(most, p);
  if (most <= 0) return 0;
  for (double p : parts) sum += std::pow(std::max(p, 0.0) / most, power);
  return most * std::pow(sum, 1 / power);
}

} // namespace tegula::tune
