#include "api/TuneSpace.h"
#include "api/ConfigNumbers.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "tune/Recipe.h"
#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tegula::api {

using runtime::Status;

namespace {
/// Sets name and view of a configuration with values; it must not move afterwards.
void finish(TuneConfig &c) {
  auto add = [&](const std::string &name, const std::string &value) {
    c.name += (c.name.empty() ? "" : ", ") + name + ": " + value;
  };
  for (const TuneConfig::Value &v : c.values) {
    add(v.name, v.value->reprText());
    c.borrowed.push_back({v.name.c_str(), v.value.get()});
  }
  for (const ConfigNumber &n : configNumbers)
    if (c.view.*n.config) add(n.name, std::to_string(c.view.*n.config));
  c.view.size = sizeof c.view, c.view.values = c.borrowed.data(), c.view.value_count = c.borrowed.size();
}

int64_t indexOf(TegulaFunction &f, const std::string &name) {
  const std::vector<Param> &params = f.params();
  auto p = std::find_if(params.begin(), params.end(), [&](const Param &p) { return p.name == name; });
  return p == params.end() ? -1 : p - params.begin();
}

/// An axis of a TegulaSpace: a parameter, or a number of launch options.
struct SpaceAxis {
  std::string name;
  uint32_t param = 0;
  const ConfigNumber *number = nullptr; // null: a parameter
  std::vector<Ref<TegulaValue>> values;
};

bool readAxis(TegulaFunction &f, const TegulaAxis &axis, SpaceAxis &out) {
  auto wrong = [&](const std::string &what) {
    return fail(TEGULA_INVALID_ARGUMENT, "`" + out.name + "`: " + what), false;
  };
  if (!axis.name || (!axis.text && !axis.values && axis.value_count))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create_space: a name or values of an axis are null"), false;
  out.name = axis.name;
  int64_t index = indexOf(f, out.name);
  if (index < 0) out.number = configNumber(out.name);
  if (index < 0 && !out.number)
    return fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "` has no parameter `" + out.name + "`"), false;
  out.param = static_cast<uint32_t>(std::max<int64_t>(index, 0));
  std::vector<std::string> texts;
  std::string error;
  if (axis.text && !tune::parseValues(axis.text, texts, error)) return wrong(error);
  for (const std::string &text : texts) {
    TegulaValue *v = tegula_value_parse(text.c_str());
    if (!v) return wrong(tegula_last_error());
    out.values.emplace_back(v);
    release(v);
  }
  for (size_t i = 0; !axis.text && i < axis.value_count; ++i) {
    if (!axis.values[i]) return wrong("a value is null");
    out.values.emplace_back(axis.values[i]);
  }
  for (const Ref<TegulaValue> &v : out.values)
    if (int64_t n; out.number && (tegula_value_as_int(v.get(), &n) != TEGULA_OK || n < 1 || n > 1 << 20))
      return wrong("takes positive numbers");
  return true;
}

/// The configuration at a point.
void fill(const std::vector<SpaceAxis> &axes, const tune::Point &p, TuneConfig &out) {
  for (size_t a = 0; a < axes.size(); ++a) {
    const Ref<TegulaValue> &v = axes[a].values[p[a]];
    int64_t n = 0;
    if (!axes[a].number) out.values.push_back({axes[a].name, axes[a].param, v});
    else if (tegula_value_as_int(v.get(), &n) == TEGULA_OK) out.view.*axes[a].number->config = static_cast<int32_t>(n);
  }
  finish(out);
}

/// The kernel of one call with varying constants.
class CallStudy final : public tune::Study {
public:
  CallStudy(TegulaFunction &f, const TuneSubject::Call &call, const TegulaArg *args, size_t count,
            std::vector<uint32_t> free)
      : f_(f), call_(call), args_(args, args + count), free_(std::move(free)) {}

  tune::Look look(const std::vector<int64_t> &values) override {
    TuneConfig config;
    for (size_t i = 0; i < free_.size(); ++i) {
      TegulaValue *v = tegula_value_int(values[i]);
      config.values.push_back({f_.params()[free_[i]].name, free_[i], Ref(v)});
      release(v);
    }
    finish(config);
    tune::Look out;
    TegulaArg args[BoundCall::maxLeaves];
    size_t n = config.apply(args_.data(), args_.size(), args);
    const TegulaArg *leaves[BoundCall::maxLeaves];
    TegulaKernel *k = sketchKernel(f_, args, n, &call_.options, Depth::Source);
    if (!k || !gridOf(f_, config, call_.grid, call_.user, out.grid) || !matchArgs(*k, args, n, leaves)) {
      out.status = lastStatus();
    } else {
      out.arguments = LaunchNumbers(*k, leaves).values;
      out.info = std::move(k->info);
    }
    release(k);
    return out;
  }

private:
  TegulaFunction &f_;
  const TuneSubject::Call &call_;
  std::vector<TegulaArg> args_;
  std::vector<uint32_t> free_;
};

std::string textOf(const tune::Recipe &r) {
  auto list = [](const auto &items, auto text) {
    std::string out = "[";
    for (const auto &item : items) out += (out.size() > 1 ? "," : "") + text(item);
    return out + "]";
  };
  auto number = [](auto n) { return std::to_string(n); };
  std::string axes = list(r.axes, [&](const tune::RecipeAxis &a) {
    return "{\"name\":" + jsonString(a.name) + ",\"role\":" + jsonString(a.role) +
           ",\"values\":" + list(a.values, number) + ",\"reason\":" + jsonString(a.reason) + "}";
  });
  std::string configs = list(r.points, [&](const tune::Point &p) {
    std::vector<int64_t> values;
    for (size_t a = 0; a < p.size(); ++a) values.push_back(r.axes[a].values[p[a]]);
    return list(values, number);
  });
  return "{\"kind\":" + jsonString(r.kind) + ",\"axes\":" + axes + ",\"configs\":" + configs +
         ",\"reasons\":" + list(r.reasons, [](const std::string &s) { return jsonString(s); }) + "}";
}

/// False: the last error is set.
bool proposeFor(TegulaFunction &f, const TuneSubject::Call &call, const TegulaArg *args, size_t count,
                tune::Recipe &out, std::vector<uint32_t> &free) {
  std::vector<std::string> names;
  const std::vector<Param> &params = f.params();
  for (size_t i = 0; i < params.size(); ++i) {
    bool given = i < count && args[i].kind != TEGULA_ARG_MISSING;
    if (!params[i].isConstexpr || given || params[i].defaultArg.kind != TEGULA_ARG_MISSING) continue;
    names.push_back(params[i].name);
    free.push_back(static_cast<uint32_t>(i));
  }
  int32_t index = call.options.device >= 0 ? call.options.device : f.context->inferDevice(args, count);
  if (index < 0) return false;
  CallStudy study(f, call, args, count, free);
  tune::RecipeTarget target{index != DeviceIndex::cpu, !call.options.num_warps, !call.options.num_stages};
  if (Status s = tune::propose(study, names, target, out); !s)
    return fail(s.code, "`" + f.fn->name + "`: " + s.text), false;
  return true;
}
} // namespace

bool proposeConfigs(TegulaFunction &f, const TuneSubject::Call &call, const TegulaArg *args, size_t count,
                    std::vector<TuneConfig> &out, std::vector<tune::Point> &points, std::string &recipe) {
  tune::Recipe r;
  std::vector<uint32_t> free;
  if (!proposeFor(f, call, args, count, r, free)) return false;
  std::vector<SpaceAxis> axes(r.axes.size());
  for (size_t a = 0; a < axes.size(); ++a) {
    axes[a].name = r.axes[a].name;
    if (a < free.size()) axes[a].param = free[a];
    else axes[a].number = configNumber(axes[a].name);
    for (int64_t n : r.axes[a].values) {
      TegulaValue *v = tegula_value_int(n);
      axes[a].values.emplace_back(v);
      release(v);
    }
  }
  recipe = textOf(r);
  points = std::move(r.points);
  out.resize(points.size());
  for (size_t i = 0; i < points.size(); ++i) fill(axes, points[i], out[i]);
  return true;
}

bool readConfig(TegulaFunction &f, const TegulaConfig &c, TuneConfig &out) {
  auto wrong = [&](const std::string &what) {
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create: " + what), false;
  };
  TegulaConfig full{};
  if (!takeSized(&c, full) || (!full.values && full.value_count))
    return wrong("`size` of a configuration is not set, or its values are null");
  for (size_t i = 0; i < full.value_count; ++i) {
    const TegulaNamedValue &v = full.values[i];
    if (!v.name || !v.value) return wrong("a value of a configuration is null");
    int64_t index = indexOf(f, v.name);
    if (index < 0) return wrong("`" + f.fn->name + "` has no parameter `" + v.name + "`");
    out.values.push_back({v.name, static_cast<uint32_t>(index), Ref(v.value)});
  }
  for (const ConfigNumber &n : configNumbers) out.view.*n.config = full.*n.config;
  if (full.function) {
    const std::vector<Param> &own = f.params(), &other = full.function->params();
    if (!std::equal(own.begin(), own.end(), other.begin(), other.end(),
                    [](const Param &a, const Param &b) { return a.name == b.name; }))
      return fail(TEGULA_INVALID_ARGUMENT,
                  "`" + f.fn->name + "`: the function of a configuration has other parameters"),
             false;
    out.function = Ref(full.function);
  }
  finish(out);
  return true;
}

std::vector<tune::Point> pointsOf(const std::vector<TuneConfig> &configs) {
  std::vector<std::string> names;
  auto axis = [&](const std::string &name) {
    auto at = std::find(names.begin(), names.end(), name);
    return static_cast<size_t>(at == names.end() ? names.insert(at, name) - names.begin() : at - names.begin());
  };
  // The occurring values of each axis, in order of appearance; "" for a configuration without one.
  std::vector<std::vector<std::string>> texts(configs.size());
  for (size_t i = 0; i < configs.size(); ++i) {
    auto note = [&](const std::string &name, std::string value) {
      size_t a = axis(name);
      texts[i].resize(std::max(texts[i].size(), a + 1));
      texts[i][a] = std::move(value);
    };
    for (const TuneConfig::Value &v : configs[i].values) note(v.name, v.value->reprText());
    for (const ConfigNumber &n : configNumbers)
      if (configs[i].view.*n.config) note(n.name, std::to_string(configs[i].view.*n.config));
  }
  std::vector<tune::Point> points(configs.size(), tune::Point(names.size()));
  for (size_t a = 0; a < names.size(); ++a) {
    std::vector<std::string> seen;
    for (size_t i = 0; i < configs.size(); ++i) {
      texts[i].resize(names.size());
      auto at = std::find(seen.begin(), seen.end(), texts[i][a]);
      points[i][a] = static_cast<uint32_t>(at - seen.begin());
      if (at == seen.end()) seen.push_back(texts[i][a]);
    }
  }
  return points;
}

bool readSpace(TegulaFunction &f, const TegulaSpace &given, std::vector<TuneConfig> &out,
               std::vector<tune::Point> &points) {
  TegulaSpace full{};
  if (!takeSized(&given, full) || (!full.axes && full.axis_count))
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_tuner_create_space: `size` of the space is not set, or its axes are null"),
           false;
  if (!full.axis_count) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create_space: the space has no axes"), false;
  std::vector<SpaceAxis> axes(full.axis_count);
  tune::Space space;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (!readAxis(f, full.axes[a], axes[a])) return false;
    space.axes.push_back({axes[a].name, std::vector<std::string>(axes[a].values.size())});
  }
  fail(TEGULA_OK, "");
  auto where = [&](const tune::Point &p) -> std::optional<bool> {
    if (!full.where) return true;
    TuneConfig c;
    fill(axes, p, c);
    int32_t answer = full.where(full.user, &c.view);
    return answer < 0 ? std::nullopt : std::optional(answer != 0);
  };
  std::string error;
  if (!space.points(where, points, error)) {
    if (!error.empty()) fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "`: " + error);
    else if (tegula_last_status() == TEGULA_OK)
      fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "`: the constraint failed");
    return false;
  }
  out.resize(points.size());
  for (size_t i = 0; i < points.size(); ++i) fill(axes, points[i], out[i]);
  return true;
}

} // namespace tegula::api

using namespace tegula::api;

TegulaStatus tegula_propose(TegulaFunction *f, TegulaGridFn grid, void *user, const TegulaArg *args, size_t count,
                            const TegulaLaunchOptions *options, char **json) {
  if (!f || !grid || !json || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_propose: null argument");
  TuneSubject::Call call{grid, user, TEGULA_LAUNCH_OPTIONS_INIT};
  if (options && !takeSized(options, call.options))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_propose: `size` of the options is not set");
  tegula::tune::Recipe r;
  std::vector<uint32_t> free;
  if (!proposeFor(*f, call, args, count, r, free)) return tegula_last_status();
  *json = strdup(textOf(r).c_str());
  return TEGULA_OK;
}
