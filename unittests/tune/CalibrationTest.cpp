// The model ranks points that were measured before: a change of it that breaks the ranking shows without a device.
#include "TestPaths.h"
#include "tune/Model.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace tegula::tune;

namespace {

struct Point {
  double ns = 0;
  Demand demand;
};
using Groups = std::map<std::string, std::vector<Point>>;

/// A point a line: group, nanoseconds, fields of Demand.
Groups read(const std::string &name) {
  Groups groups;
  std::ifstream file(std::string(tegula::testSourceDir) + "/unittests/tune/" + name);
  EXPECT_TRUE(file) << name;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    std::string group, field;
    Point p;
    in >> group >> p.ns;
    while (in >> field) {
      size_t at = field.find('=');
      auto fields = demandFields();
      auto known = std::find_if(fields.begin(), fields.end(),
                                [&](const DemandField &f) { return field.substr(0, at) == f.name; });
      EXPECT_NE(known, fields.end()) << field;
      if (known != fields.end()) p.demand.*known->value = std::stod(field.substr(at + 1));
    }
    groups[group].push_back(p);
  }
  return groups;
}

std::vector<double> ranks(const std::vector<double> &v) {
  std::vector<double> r;
  for (double x : v) {
    double below = 0, equal = 0;
    for (double y : v) below += y < x, equal += y == x;
    r.push_back(below + (equal - 1) / 2);
  }
  return r;
}

double spearman(const std::vector<double> &a, const std::vector<double> &b) {
  std::vector<double> x = ranks(a), y = ranks(b);
  double mean = (static_cast<double>(a.size()) - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean), yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx * yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

template <typename Time> void expectRanked(const std::string &name, double least, const Time &time) {
  Groups groups = read(name);
  EXPECT_FALSE(groups.empty());
  double sum = 0;
  for (const auto &[group, points] : groups) {
    ASSERT_GE(points.size(), 5u) << group;
    std::vector<double> estimates, times;
    for (const Point &p : points) estimates.push_back(time(p.demand)), times.push_back(p.ns);
    double rho = spearman(estimates, times);
    EXPECT_GE(rho, least - 0.15) << group;
    sum += rho;
  }
  EXPECT_GE(sum / static_cast<double>(groups.size()), least) << name;
}

TEST(Calibration, CpuTimesAreRanked) {
  CpuCeilings cpu;
  cpu.vectorBits = 512, cpu.l3Bytes = 36 << 20, cpu.dots8 = true;
  expectRanked("measured-cpu.txt", 0.85, [&](const Demand &d) { return cpuTime(d, cpu).ns; });
}

TEST(Calibration, GpuTimesAreRanked) {
  expectRanked("measured-h200.txt", 0.85, [&](const Demand &d) { return gpuTime(d, gpuCeilings(90, "H200")).ns; });
}

} // namespace
