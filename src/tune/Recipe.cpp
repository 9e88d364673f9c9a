#include "tune/Recipe.h"
#include <algorithm>
#include <numeric>

namespace tegula::tune {

using runtime::Status;

namespace {
enum class Role : uint8_t { M, N, K, Tile, Whole, Split, Order, Stages, None };
constexpr const char *roleNames[] = {"m", "n", "k", "tile", "whole", "split", "order", "stages", "none"};
enum class Kind : uint8_t { Matmul, Attention, Rows, Elementwise };
constexpr const char *kindNames[] = {"matmul", "attention", "rows", "elementwise"};
constexpr const char *kindReasons[] = {"a loop multiplies tiles",
                                       "a loop has two products, one of which needs the other's result",
                                       "tiles are reduced", "there is neither a product nor a reduction"};

/// Values worth trying, as powers of two.
struct Bounds {
  Kind kind;
  Role role;
  int64_t cpuFirst, cpuLast, gpuFirst, gpuLast;
};
constexpr Bounds bounds[] = {
    {Kind::Matmul, Role::M, 16, 256, 16, 256},    {Kind::Matmul, Role::N, 16, 256, 16, 256},
    {Kind::Matmul, Role::K, 16, 256, 16, 128},    {Kind::Matmul, Role::Tile, 16, 256, 16, 256},
    {Kind::Attention, Role::M, 16, 256, 32, 256}, {Kind::Attention, Role::N, 16, 256, 16, 128},
    {Kind::Attention, Role::K, 16, 256, 16, 128}, {Kind::Attention, Role::Tile, 16, 256, 16, 256},
    {Kind::Rows, Role::Tile, 1, 8192, 1, 8192},   {Kind::Elementwise, Role::Tile, 1, 65536, 1, 8192},
};
/// Elements of the largest tile of a program.
struct TileLimit {
  Kind kind;
  int64_t cpuLeast, cpuMost, gpuLeast, gpuMost;
};
constexpr TileLimit tileLimits[] = {{Kind::Matmul, 256, 65536, 256, 65536},
                                    {Kind::Attention, 256, 65536, 512, 65536},
                                    {Kind::Rows, 64, 65536, 64, 16384},
                                    {Kind::Elementwise, 128, 65536, 128, 16384}};
struct Launches {
  Kind kind;
  std::vector<int64_t> warps, stages;
};
const Launches &launchesOf(Kind kind) {
  static const Launches rows[] = {{Kind::Matmul, {4, 8}, {2, 3, 4}},
                                  {Kind::Attention, {4, 8}, {2, 3, 4}},
                                  {Kind::Rows, {1, 2, 4, 8, 16}, {}},
                                  {Kind::Elementwise, {2, 4, 8}, {}}};
  return *std::find_if(std::begin(rows), std::end(rows), [&](const Launches &l) { return l.kind == kind; });
}

/// An extent that is compared: of an access or a dot.
struct Extent {
  enum What : uint8_t { Access, DotM, DotN, DotK, DotBatch } what;
  size_t which, dim;
};

int64_t at(const Work &w, const Extent &e) {
  if (e.what == Extent::Access) return w.accesses[e.which].shape[e.dim];
  const WorkDot &d = w.dots[e.which];
  return e.what == Extent::DotM ? d.m : e.what == Extent::DotN ? d.n : e.what == Extent::DotK ? d.k : d.batch;
}

std::vector<Extent> extentsOf(const Work &w) {
  std::vector<Extent> out;
  for (size_t i = 0; i < w.dots.size(); ++i)
    for (Extent::What what : {Extent::DotM, Extent::DotN, Extent::DotK, Extent::DotBatch}) out.push_back({what, i, 0});
  for (size_t i = 0; i < w.accesses.size(); ++i)
    for (size_t d = 0; d < w.accesses[i].shape.size(); ++d) out.push_back({Extent::Access, i, d});
  return out;
}

/// Do both have the same operations, with any extents?
bool isComparable(const Work &a, const Work &b) {
  if (a.dots.size() != b.dots.size() || a.accesses.size() != b.accesses.size() || a.scopes.size() != b.scopes.size())
    return false;
  for (size_t i = 0; i < a.accesses.size(); ++i)
    if (a.accesses[i].shape.size() != b.accesses[i].shape.size()) return false;
  return true;
}

/// The trip counts of loops and the number of programs: the total number of tiles.
struct Amount {
  int64_t programs = 1;
  std::vector<double> trips; // of each scope, over all sampled programs
  bool operator==(const Amount &) const = default;
};

WorkPoint pointOf(const Look &l, int64_t program) {
  WorkPoint p{l.arguments, {}, {}};
  for (unsigned i = 0; i < 3; ++i) {
    p.grid[i] = std::max<int64_t>(l.grid[i], 1);
    p.program[i] = program % p.grid[i];
    program /= p.grid[i];
  }
  return p;
}

Amount amountOf(const Look &l) {
  Amount a;
  for (int64_t g : l.grid) a.programs *= std::max<int64_t>(g, 1);
  constexpr int64_t looked = 8; // from the first to the last: triangular loops have long rows and short ones
  a.trips.assign(l.info.work.scopes.size(), 0);
  WorkValues v(l.info.work);
  for (int64_t n = 0; n < std::min(looked, a.programs); ++n) {
    v.evaluate(pointOf(l, n * (a.programs - 1) / std::max<int64_t>(std::min(looked, a.programs) - 1, 1)));
    for (size_t s = 0; s < a.trips.size(); ++s) a.trips[s] += v.executions(static_cast<int32_t>(s), 8);
  }
  return a;
}

/// The addresses of the accesses of some programs.
std::vector<int64_t> placesOf(const Look &l, int64_t programs) {
  std::vector<int64_t> out;
  WorkValues v(l.info.work);
  for (int64_t n = 0; n < std::min<int64_t>(programs, 256); ++n) {
    v.evaluate(pointOf(l, n), WorkMoment::First);
    for (const WorkAccess &a : l.info.work.accesses) out.push_back(v.isKnown(a.offset) ? v[a.offset] : -1);
  }
  return out;
}

/// Unmasked elements of the first program's access along a dimension; -1: there is no mask, or it is unknown.
int64_t activeAlong(const Look &l, const WorkAccess &a, size_t dim) {
  if (a.mask < 0 || a.shape[dim] > 1 << 17) return -1;
  WorkValues v(l.info.work);
  const WorkPoint p = pointOf(l, 0);
  v.evaluate(p, WorkMoment::First);
  std::vector<int64_t> c(a.shape.size(), 0);
  int64_t active = 0;
  for (c[dim] = 0; c[dim] < a.shape[dim]; ++c[dim]) {
    v.at(p, c);
    if (!v.isKnown(a.mask)) return -1;
    active += v[a.mask] != 0;
  }
  return active;
}

bool multipliesInLoop(const Work &w, const WorkDot &d) {
  for (int32_t s = d.scope; s >= 0; s = w.scopes[static_cast<size_t>(s)].parent)
    if (w.scopes[static_cast<size_t>(s)].kind == WorkScope::Kind::Loop) return true;
  return false;
}

Kind kindOf(const Work &w) {
  bool loops = false;
  for (const WorkDot &d : w.dots) {
    loops = loops || multipliesInLoop(w, d);
    if (multipliesInLoop(w, d) && d.waitsFor >= 0) return Kind::Attention;
  }
  if (loops || !w.dots.empty()) return Kind::Matmul;
  for (const WorkScope &s : w.scopes)
    if (s[WorkKind::Reduce] > 0) return Kind::Rows;
  return Kind::Elementwise;
}

/// The findings about one parameter.
struct Finding {
  Role role = Role::None;
  std::vector<Extent> extents; // that change with it
  std::string reason;
  std::vector<int64_t> values;
};

class Proposal {
public:
  Proposal(Study &study, const std::vector<std::string> &free, const RecipeTarget &target, Recipe &out)
      : study_(study), free_(free), target_(target), out_(out) {}

  Status run() {
    if (free_.empty())
      return Status::error(TEGULA_INVALID_ARGUMENT, "no constexpr parameter is left to be proposed: all have values");
    if (Status s = findBase(); !s) return s;
    kind_ = kindOf(base_.info.work);
    out_.kind = kindNames[static_cast<int>(kind_)];
    out_.reasons.push_back(std::string("it is of the kind ") + out_.kind + ": " + kindReasons[static_cast<int>(kind_)]);
    for (size_t p = 0; p < free_.size(); ++p) {
      findings_.push_back(study(p));
      if (findings_.back().role == Role::None)
        return Status::error(TEGULA_INVALID_ARGUMENT, "no value can be proposed for `" + free_[p] +
                                                          "`: " + findings_.back().reason + "; give it a value");
    }
    for (size_t p = 0; p < free_.size(); ++p) chooseValues(p);
    for (size_t p = 0; p < free_.size(); ++p)
      out_.axes.push_back(
          {free_[p], roleNames[static_cast<int>(findings_[p].role)], findings_[p].reason, findings_[p].values});
    addLaunch();
    return makePoints();
  }

private:
  std::vector<int64_t> with(size_t p, int64_t value) const {
    std::vector<int64_t> v = values_;
    v[p] = value;
    return v;
  }

  /// Finds one number that the kernel compiles with for all parameters.
  Status findBase() {
    Status last;
    for (int64_t v : {32, 64, 16, 128, 256, 8, 4, 2, 1}) {
      values_.assign(free_.size(), v);
      base_ = study_.look(values_);
      if (base_.status && !base_.info.work.scopes.empty()) return Status::ok();
      if (last) last = base_.status;
    }
    std::string names;
    for (const std::string &n : free_) names += (names.empty() ? "`" : ", `") + n + "`";
    return Status::error(TEGULA_INVALID_ARGUMENT, "no values can be proposed for " + names +
                                                      ", as none was found that the kernel compiles with" +
                                                      (last ? "" : "; with 32: " + last.text));
  }

  /// Doubles the parameter or, if that does not compile, halves it.
  Finding study(size_t p) {
    Finding f;
    Look other = study_.look(with(p, values_[p] * 2));
    double factor = 2;
    if (!other.status && values_[p] > 1) other = study_.look(with(p, values_[p] / 2)), factor = 0.5;
    if (!other.status)
      return f.reason = "the kernel does not compile with " + std::to_string(values_[p] * 2) + ": " + other.status.text,
             f;
    const Work &a = base_.info.work, &b = other.info.work;
    if (!isComparable(a, b)) return f.reason = "it changes what the kernel does, not only how large its tiles are", f;
    bool m = false, n = false, k = false;
    for (const Extent &e : extentsOf(a)) {
      if (static_cast<double>(at(b, e)) != factor * static_cast<double>(at(a, e))) continue;
      f.extents.push_back(e);
      m |= e.what == Extent::DotM, n |= e.what == Extent::DotN, k |= e.what == Extent::DotK;
    }
    const Amount before = amountOf(base_), after = amountOf(other);
    const bool moves = !(before == after);
    if (f.extents.empty()) {
      if (moves)
        return f.role = Role::Split, f.reason = "it changes the number of programs or of iterations, not the tiles", f;
      for (size_t s = 0; s < a.scopes.size(); ++s)
        if (a.scopes[s].stages != b.scopes[s].stages)
          return f.role = Role::Stages, f.reason = "iterations of a loop whose loads are ahead", f;
      return orders(p, std::move(f));
    }
    if (!moves && !f.extents.empty()) return whole(p, std::move(f));
    f.role = m && !n ? Role::M : n && !m ? Role::N : m && n ? Role::M : k ? Role::K : Role::Tile;
    static constexpr const char *reasons[] = {"rows of a product", "columns of a product", "depth of a product",
                                              "extent of tiles"};
    f.reason = reasons[static_cast<int>(f.role)];
    return f;
  }

  /// Does it change the assignment of tiles to programs? A group that contains all tiles is equivalent to a larger one,
  /// so small values are compared.
  Finding orders(size_t p, Finding f) {
    const Amount amount = amountOf(base_);
    const std::vector<int64_t> places = placesOf(base_, amount.programs);
    for (int64_t v : {1, 2, 4, 8}) {
      Look other = study_.look(with(p, v));
      if (!other.status || !isComparable(base_.info.work, other.info.work) || !(amountOf(other) == amount) ||
          placesOf(other, amount.programs) == places)
        continue;
      return f.role = Role::Order, f.reason = "order of the tiles", f;
    }
    return f.reason = "it changes neither tiles nor their number nor their order", f;
  }

  /// No program continues after the tile: it must cover everything that the mask admits.
  Finding whole(size_t p, Finding f) {
    int64_t had = -1, value = 0;
    for (int64_t v = 1; v <= 1 << 17; v *= 2) {
      Look l = study_.look(with(p, v));
      if (!l.status || !isComparable(l.info.work, base_.info.work)) continue;
      int64_t active = 0;
      for (const Extent &e : f.extents) {
        if (e.what != Extent::Access) continue;
        int64_t here = activeAlong(l, l.info.work.accesses[e.which], e.dim);
        active = here < 0 || active < 0 ? -1 : std::max(active, here);
      }
      if (active < 0) break;
      if (active < v) {
        value = active == had ? v / 2 : v;
        break;
      }
      had = active;
    }
    if (!value)
      return f.reason = "it is the extent of a tile that is all there is, and no mask says how large that must be", f;
    f.role = Role::Whole;
    f.values = {value};
    f.reason = "one tile is all: the least power of two that leaves nothing over";
    return f;
  }

  void chooseValues(size_t p) {
    Finding &f = findings_[p];
    if (f.role == Role::Split) f.values = {1, 2, 4, 8};
    if (f.role == Role::Order) f.values = {1, 4, 8};
    if (f.role == Role::Stages) f.values = target_.isGpu ? std::vector<int64_t>{1, 2, 3, 4} : std::vector<int64_t>{2};
    if (!f.values.empty()) return;
    auto row = std::find_if(std::begin(bounds), std::end(bounds),
                            [&](const Bounds &b) { return b.kind == kind_ && b.role == f.role; });
    const int64_t first = target_.isGpu ? row->gpuFirst : row->cpuFirst,
                  last = target_.isGpu ? row->gpuLast : row->cpuLast;
    std::optional<Amount> before;
    std::string end;
    for (int64_t v = first; v <= last; v *= 2) {
      Look l = study_.look(with(p, v));
      if (!l.status) continue;
      // One tile already covered all of it.
      Amount now = amountOf(l);
      if (before && now == *before) {
        end = ", and one of " + std::to_string(v / 2) + " holds all";
        break;
      }
      before = std::move(now);
      f.values.push_back(v);
    }
    if (f.values.empty()) f.values = {values_[p]};
    f.reason += end;
  }

  void addLaunch() {
    const Launches &l = launchesOf(kind_);
    if (!target_.isGpu) return out_.reasons.push_back("num_warps and num_stages change nothing on a CPU");
    if (target_.warps) out_.axes.push_back({"num_warps", "warps", "threads of a program", l.warps});
    bool loops = std::any_of(base_.info.work.scopes.begin(), base_.info.work.scopes.end(),
                             [](const WorkScope &s) { return s.kind == WorkScope::Kind::Loop; });
    if (target_.stages && loops && !l.stages.empty())
      out_.axes.push_back({"num_stages", "stages", "iterations whose loads are ahead", l.stages});
  }

  /// Elements of the largest tile at a point, by the parameters that scale it.
  int64_t largest(const Point &point) const {
    auto scaled = [&](const Extent &e) {
      int64_t size = at(base_.info.work, e);
      for (size_t p = 0; p < free_.size(); ++p)
        for (const Extent &own : findings_[p].extents)
          if (own.what == e.what && own.which == e.which && own.dim == e.dim)
            size = size * out_.axes[p].values[point[p]] / values_[p];
      return size;
    };
    const Work &w = base_.info.work;
    int64_t most = 0;
    for (size_t i = 0; i < w.dots.size(); ++i)
      most = std::max(most, scaled({Extent::DotM, i, 0}) * scaled({Extent::DotN, i, 0}));
    for (size_t i = 0; i < w.accesses.size(); ++i) {
      int64_t n = 1;
      for (size_t d = 0; d < w.accesses[i].shape.size(); ++d) n *= scaled({Extent::Access, i, d});
      most = std::max(most, n);
    }
    return most;
  }

  Status makePoints() {
    const TileLimit &limit = *std::find_if(std::begin(tileLimits), std::end(tileLimits),
                                           [&](const TileLimit &l) { return l.kind == kind_; });
    const int64_t least = target_.isGpu ? limit.gpuLeast : limit.cpuLeast,
                  most = target_.isGpu ? limit.gpuMost : limit.cpuMost;
    Space space;
    for (const RecipeAxis &a : out_.axes) space.axes.push_back({a.name, std::vector<std::string>(a.values.size())});
    std::string error;
    auto fits = [&](const Point &p) -> std::optional<bool> {
      int64_t size = largest(p);
      return size >= least && size <= most;
    };
    out_.reasons.push_back("tiles have " + std::to_string(least) + " to " + std::to_string(most) + " elements");
    if (space.points(fits, out_.points, error)) return dropUnused(), Status::ok();
    // Small shapes have small tiles only, and a whole extent may be large.
    out_.reasons.back() =
        "no tile has " + std::to_string(least) + " to " + std::to_string(most) + " elements, so that all are taken";
    out_.points.clear();
    if (space.points(nullptr, out_.points, error)) return Status::ok();
    return Status::error(TEGULA_INVALID_ARGUMENT, error);
  }

  /// Removes values that no point uses.
  void dropUnused() {
    for (size_t a = 0; a < out_.axes.size(); ++a) {
      std::vector<int64_t> &values = out_.axes[a].values, kept;
      std::vector<uint32_t> now(values.size(), UINT32_MAX);
      for (size_t v = 0; v < values.size(); ++v)
        if (std::any_of(out_.points.begin(), out_.points.end(), [&](const Point &p) { return p[a] == v; }))
          now[v] = static_cast<uint32_t>(kept.size()), kept.push_back(values[v]);
      for (Point &p : out_.points) p[a] = now[p[a]];
      values = std::move(kept);
    }
  }

  Study &study_;
  const std::vector<std::string> &free_;
  const RecipeTarget &target_;
  Recipe &out_;
  std::vector<int64_t> values_;
  Look base_;
  Kind kind_ = Kind::Elementwise;
  std::vector<Finding> findings_;
};
} // namespace

Status propose(Study &study, const std::vector<std::string> &free, const RecipeTarget &target, Recipe &out) {
  out = {};
  return Proposal(study, free, target, out).run();
}

} // namespace tegula::tune
