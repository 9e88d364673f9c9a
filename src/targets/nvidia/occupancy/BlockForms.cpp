// See BlockForms.h.
#include "targets/nvidia/occupancy/BlockForms.h"
#include "gpu/loops/Crowd.h"
#include "gpu/loops/PrefetchLoads.h"
#include "ir/Builder.h"
#include "passes/LaunchNumbers.h"
#include <algorithm>

namespace tegula::nvidia {
namespace {

/// Classes of a grid, by the warps that a multiprocessor has of it if all run at once; of trips: one iteration has no
/// loads of later ones, from some on there is time to gain by them.
constexpr int64_t gridWarps[] = {16, 40, 48, 64}, tripLimits[] = {1, manyTrips}, mostTrips = INT32_MAX;

/// The axes of what a launch may decide, and the rule asked for each combination of classes.
class Asking {
public:
  Asking(const ir::Function &kernel, const Pressure &pressure, Holders holders, const Options &options,
         const LaunchForms &ahead, BlockRule form)
      : pressure_(pressure), holders_(holders), options_(options), ahead_(ahead), form_(std::move(form)) {
    forms_.exprs = ahead.exprs;
    for (const Iteration &it : pressure.iterations) {
      known_.trips.push_back(0);
      const bool isConstant = ir::constantInt(it.loop->operands[0]) && ir::constantInt(it.loop->operands[1]) &&
                              ir::constantInt(it.loop->operands[2]);
      numbers_.push_back(isConstant ? -1 : LaunchNumbers(kernel, forms_).tripsOf(*it.loop));
    }
    for (const RowLoop &row : pressure.rows) {
      known_.rowTrips.push_back(row.trips);
      rowNumbers_.push_back(row.trips ? -1 : LaunchNumbers(kernel, forms_).tripsOf(*row.loop));
    }
    known_.isPersistent = isPersistent(*kernel.block());
    if (known_.isPersistent)
      for (int64_t blocks = 1; blocks <= 8 && blocks * options.numWarps <= gridWarps[0]; ++blocks) // tables stay small
        grids_.push_back({16 * blocks, static_cast<uint64_t>(blocks)});
    for (const int64_t warps : gridWarps)
      if (const GridClass c{16 * warps / options.numWarps,
                            std::max<uint64_t>(1, static_cast<uint64_t>(warps) / options.numWarps)};
          grids_.empty() || c.limit > grids_.back().limit)
        grids_.push_back(c);
  }

  LaunchForms ask() {
    forms_.unknown = form_(holders_, known_);
    LaunchForms::Axis grid{LaunchForms::Axis::grid, {}};
    for (const GridClass &c : grids_)
      grid.limits.push_back(c.limit);
    forms_.axes.push_back(std::move(grid));
    for (int32_t n : numbers_)
      if (n >= 0 && forms_.axes.size() <= mostLoops &&
          std::ranges::find(forms_.axes, n, &LaunchForms::Axis::number) == forms_.axes.end())
        forms_.axes.push_back({n, {std::begin(tripLimits), std::end(tripLimits)}});
    addRowLimits();
    if (ahead_.asks())
      addLimit(ahead_.axes.back().number, ahead_.axes.back().limits.front());
    classes(0, known_, {});
    for (size_t i = forms_.axes.size(); i--;)
      dropIdle(i);
    if (std::ranges::all_of(forms_.forms, [&](uint8_t form) { return form == forms_.unknown; })) {
      const uint8_t only = forms_.unknown;
      forms_ = {};
      forms_.unknown = only;
    }
    forms_.form = options_.facts.form ? options_.facts.form
                  : forms_.asks()     ? forms_.formFor(options_.facts)
                                      : forms_.unknown;
    return std::move(forms_);
  }

private:
  static constexpr size_t mostLoops = 2; // that differ; tables stay small

  /// Bytes of rows at which the rule changes, of the loop whose rows have that number.
  std::vector<uint64_t> limitsOfRows(size_t row) const {
    if (holders_.canHold)
      return limitsOfHolding(heldIterations(pressure_, row), holders_.mostCtas);
    std::vector<uint64_t> out;
    for (uint64_t blocks = 1; blocks <= mostLimited + 1; ++blocks)
      out.insert(out.end(), {bytesInL2 / blocks, mostInAnyCase / blocks});
    return out;
  }

  /// The trips from which on rows that are read again want fewer blocks; dropped where tables would not stay small.
  void addRowLimits() {
    std::vector<LaunchForms::Axis> axes = forms_.axes;
    for (size_t i = 0; i < rowNumbers_.size(); ++i) {
      if (rowNumbers_[i] < 0)
        continue;
      auto axis = std::ranges::find(axes, rowNumbers_[i], &LaunchForms::Axis::number);
      if (axis == axes.end() && axes.size() > mostLoops)
        continue;
      if (axis == axes.end())
        axis = axes.insert(axis, {rowNumbers_[i], {}});
      for (const uint64_t bytes : limitsOfRows(i))
        if (const auto trips = static_cast<int64_t>(bytes / pressure_.rows[i].again.bytes);
            trips && std::ranges::find(axis->limits, trips) == axis->limits.end())
          axis->limits.push_back(trips);
      std::ranges::sort(axis->limits);
    }
    size_t combinations = 1;
    for (const LaunchForms::Axis &a : axes)
      combinations *= a.limits.size() + 1;
    if (combinations <= LaunchForms::mostForms) {
      forms_.axes = std::move(axes);
    } else if (holders_.mostCtas > 1) {
      holders_.mostCtas = 1;
      addRowLimits();
    }
  }

  void addLimit(int32_t number, int64_t limit) {
    auto axis = std::ranges::find(forms_.axes, number, &LaunchForms::Axis::number);
    if (axis == forms_.axes.end())
      axis = forms_.axes.insert(axis, {number, {}});
    if (std::ranges::find(axis->limits, limit) == axis->limits.end())
      axis->limits.push_back(limit);
    std::ranges::sort(axis->limits);
  }

  /// Do loops load ahead where the grid and trips of `most` are the most of a class? Its limits are among those of the
  /// classes.
  bool loadsAhead(const std::vector<std::pair<int32_t, int64_t>> &most) const {
    size_t index = 0;
    for (const LaunchForms::Axis &a : ahead_.axes) {
      const int64_t n = std::ranges::find(most, a.number, &std::pair<int32_t, int64_t>::first)->second;
      index = index * (a.limits.size() + 1) +
              static_cast<size_t>(std::ranges::count_if(a.limits, [&](int64_t limit) { return limit < n; }));
    }
    return ahead_.asks() && ahead_.forms[index] == tegula::gpu::aheadForm;
  }

  /// `most`: by number, of the axes before.
  void classes(size_t axis, Known known, std::vector<std::pair<int32_t, int64_t>> most) {
    if (axis == forms_.axes.size()) {
      known.loadsAhead = loadsAhead(most);
      forms_.forms.push_back(form_(holders_, known));
      return;
    }
    const LaunchForms::Axis &a = forms_.axes[axis];
    for (size_t c = 0; c <= a.limits.size(); ++c) {
      if (a.number == LaunchForms::Axis::grid) {
        known.blocks = c < a.limits.size() ? grids_[c].blocks : UINT32_MAX;
      } else {
        const int64_t trips = c < a.limits.size() ? a.limits[c] : mostTrips;
        for (size_t i = 0; i < numbers_.size(); ++i)
          if (numbers_[i] == a.number)
            known.trips[i] = trips;
        for (size_t i = 0; i < rowNumbers_.size(); ++i)
          if (rowNumbers_[i] == a.number)
            known.rowTrips[i] = trips;
      }
      most.resize(axis);
      most.emplace_back(a.number, c < a.limits.size() ? a.limits[c] : INT64_MAX);
      classes(axis + 1, known, most);
    }
  }

  /// Takes an axis away that decides nothing.
  void dropIdle(size_t axis) {
    size_t inner = 1, own = forms_.axes[axis].limits.size() + 1;
    for (size_t i = axis + 1; i < forms_.axes.size(); ++i)
      inner *= forms_.axes[i].limits.size() + 1;
    std::vector<uint8_t> first;
    for (size_t i = 0; i < forms_.forms.size(); ++i) {
      const size_t c = i / inner % own;
      if (c == 0)
        first.push_back(forms_.forms[i]);
      else if (forms_.forms[i] != forms_.forms[i - c * inner])
        return;
    }
    forms_.forms = std::move(first);
    forms_.axes.erase(forms_.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  }

  struct GridClass {
    int64_t limit; // of LaunchForms::Axis::grid
    uint64_t blocks;
  };

  const Pressure &pressure_;
  Holders holders_;
  const Options &options_;
  const LaunchForms &ahead_;
  const BlockRule form_;
  std::vector<GridClass> grids_; // ascending
  Known known_;
  // of the iterations' and rows' trips: expressions; -1: constants or nobody knows
  std::vector<int32_t> numbers_, rowNumbers_;
  LaunchForms forms_;
};

} // namespace

LaunchForms askForms(const ir::Function &kernel, const Pressure &pressure, const Holders &holders,
                     const Options &options, const LaunchForms &ahead, const BlockRule &rule) {
  return Asking(kernel, pressure, holders, options, ahead, rule).ask();
}

constexpr uint8_t fewForm = 1, manyForm = 2; // code for grids that are no crowd, and for those that are

LaunchForms formsByCrowd(const Options &options) {
  LaunchForms out;
  if (!options.askedCrowd)
    return out;
  const auto crowd = tegula::gpu::Crowd::of(options.askedCrowd);
  out.axes = {{LaunchForms::Axis::grid, crowd.limits()}};
  for (size_t i = 0; i <= out.axes[0].limits.size(); ++i)
    out.forms.push_back(i % 2 ? manyForm : fewForm);
  out.unknown = fewForm;
  out.form = crowd.gains(options.crowd) ? manyForm : fewForm;
  return out;
}

uint32_t crowdOf(const LaunchFacts &facts) {
  if (facts.form)
    return facts.form == manyForm ? UINT32_MAX : 1;
  const int64_t cores = facts.cores;
  return static_cast<uint32_t>(
      std::min<int64_t>(UINT32_MAX, (std::clamp<int64_t>(facts.programs, 0, UINT32_MAX) * 16 + cores - 1) / cores));
}

} // namespace tegula::nvidia
