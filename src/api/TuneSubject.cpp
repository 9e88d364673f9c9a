#include "api/TuneSubject.h"
#include "api/ConfigNumbers.h"
#include "api/Specialize.h"
#include <atomic>
#include <cstring>
#include <functional>
#include <pthread.h>

namespace tegula::api {

using runtime::Status;

size_t TuneConfig::apply(const TegulaArg *args, size_t count, TegulaArg *to) const {
  std::copy_n(args, count, to);
  for (const Value &v : values) {
    while (count <= v.param) to[count++] = TegulaArg{};
    to[v.param] = tegula_constant(v.value.get());
  }
  return count;
}

void TuneConfig::apply(TegulaLaunchOptions &o) const {
  applyNumbers(view, o);
}

OwnedArgs::OwnedArgs(const TegulaArg *args, size_t count) {
  for (size_t i = 0; i < count; ++i) list_.push_back(own(args[i]));
}

TegulaArg OwnedArgs::own(const TegulaArg &a) {
  TegulaArg copy = a;
  if (a.kind == TEGULA_ARG_VALUE && a.u.value) values_.emplace_back(a.u.value);
  if (a.kind != TEGULA_ARG_TUPLE) return copy;
  if (a.u2.cls) values_.emplace_back(a.u2.cls);
  std::vector<TegulaArg> items;
  for (uint32_t i = 0; i < a.count && a.u.items; ++i) items.push_back(own(a.u.items[i]));
  if (a.u.items) copy.u.items = items_.emplace_back(std::move(items)).data();
  return copy;
}

Status lastStatus() {
  Status s{tegula_last_status(), tegula_last_error(), {}};
  if (TegulaShortage what; tegula_last_shortage(&what) == TEGULA_OK)
    s.shortage = {what.name, what.required, what.limit};
  return s;
}

bool gridOf(const TegulaFunction &f, const TuneConfig &config, TegulaGridFn grid, void *user, int64_t out[3]) {
  out[0] = out[1] = out[2] = 1;
  if (grid(user, &config.view, out) == 0) return true;
  fail(TEGULA_INVALID_ARGUMENT, "`" + f.fn->name + "`: there is no grid for configuration (" + config.name + ")");
  return false;
}

std::vector<tune::Buffer> buffersOf(TegulaFunction &f, const TegulaKernel &k, const TegulaArg *args, size_t count,
                                    const TegulaLaunchOptions &options) {
  std::vector<tune::Buffer> buffers;
  CallOptions call;
  BoundCall bound;
  if (!f.context->resolve(&options, call, args, count) || !bind(f, args, count, call.compile, bound)) return buffers;
  for (const PackItem &item : k.pack) {
    const runtime::ArgInfo &info = k.info.args[static_cast<size_t>(&item - k.pack.data())];
    const TegulaArg &a = *bound.leaves[item.leaf];
    if (!item.isPtr || !a.u.ptr || (!info.read && !info.written)) continue;
    buffers.push_back({info.name, a.u.ptr, a.u2.extent, info.dtype, info.read, info.written});
  }
  return buffers;
}

/// Does the error concern only this configuration, so that others can still be tuned?
static bool isSkipped(const Status &s) {
  if (s.code == TEGULA_OUT_OF_RESOURCES || s.code == TEGULA_ASSEMBLER_ERROR) return true;
  if (s.code != TEGULA_COMPILE_ERROR) return false;
  for (size_t i = 0, n = tegula_diagnostic_count(); i < n; ++i)
    if (TegulaDiagnostic d; tegula_diagnostic_get(i, &d) == TEGULA_OK && d.severity == TEGULA_SEVERITY_ERROR &&
                            std::strcmp(d.kind, "staticAssertFailed") != 0)
      return false;
  return true;
}

tune::Sketch TuneSubject::sketchOne(size_t i) {
  const TuneConfig &config = (*configs_)[i];
  TegulaArg args[BoundCall::maxLeaves];
  size_t n = config.apply(args_.list().data(), args_.list().size(), args);
  TegulaLaunchOptions o = call_.options;
  config.apply(o);
  tune::Sketch out;
  TegulaKernel *k = nullptr;
  if (tegula_sketch(&functionOf(config), args, n, &o, &k) != TEGULA_OK) {
    out.status = lastStatus();
    out.skip = isSkipped(out.status);
    return out;
  }
  if (const std::optional<GridOf> &g = grids_[i]; g && g->status)
    if (double ns = 0; tegula_kernel_estimate(k, g->extents, args, n, &o, &ns, nullptr) == TEGULA_OK)
      out.estimateNs = ns;
  release(k);
  return out;
}

extern "C" {
static void *sketchEntry(void *some) {
  (*static_cast<std::function<void()> *>(some))();
  return nullptr;
}
}

std::vector<tune::Sketch> TuneSubject::sketch(const std::vector<size_t> &wanted, unsigned threads) {
  prepare(wanted);
  std::vector<tune::Sketch> out(wanted.size());
  if (const runtime::ThreadPool::Executor &e = function_->context->pool.executor(); e.run) {
    e.share(wanted.size(), threads, [&](size_t k) { out[k] = sketchOne(wanted[k]); });
    return out;
  }
  std::atomic<size_t> next{0};
  std::function<void()> some = [&] {
    for (size_t k; (k = next++) < wanted.size();) out[k] = sketchOne(wanted[k]);
  };
  // If the system has no further thread, the existing ones do the work.
  std::vector<pthread_t> others;
  while (others.size() + 1 < std::min<size_t>(threads, wanted.size())) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, sketchEntry, &some) != 0) break;
    others.push_back(thread);
  }
  some();
  for (pthread_t t : others) pthread_join(t, nullptr);
  return out;
}

tune::Compiled TuneSubject::compile(size_t i) {
  tune::Compiled out;
  const TuneConfig &config = (*configs_)[i];
  TegulaArg args[BoundCall::maxLeaves];
  size_t n = config.apply(args_.list().data(), args_.list().size(), args);
  TegulaLaunchOptions o = call_.options;
  config.apply(o);
  int32_t extents[3];
  if (int64_t programs; grids_[i] && grids_[i]->status && runtime::checkGrid(grids_[i]->extents, extents, programs))
    o.programs = programs;
  TegulaKernel *k = nullptr;
  if (tegula_compile(&functionOf(config), args, n, &o, &k) != TEGULA_OK) {
    out.status = lastStatus();
    out.skip = isSkipped(out.status);
    return out;
  }
  out.buffers = buffersOf(functionOf(config), *k, args, n, o);
  // Configurations without an estimate keep their order.
  if (const std::optional<GridOf> &g = grids_[i]; g && g->status)
    if (double ns = 0; tegula_kernel_estimate(k, g->extents, args, n, &o, &ns, nullptr) == TEGULA_OK)
      out.estimateNs = ns;
  if (k->target.isCpu()) out.code.assign(k->object.data(), k->object.size());
  if (const std::optional<GridOf> &g = grids_[i]; g && g->status && function_->context->tuning.rehearses)
    if (Status s = rehearsal_.run(*k, g->extents, args, n, o); !s) {
      s.text += ", given " + given;
      out.status = std::move(s), out.skip = true;
    }
  release(k);
  return out;
}

Status TuneSubject::run(size_t i, void *stream) {
  const TuneConfig &config = (*configs_)[i];
  TegulaArg args[BoundCall::maxLeaves];
  size_t n = config.apply(args_.list().data(), args_.list().size(), args);
  TegulaLaunchOptions o = call_.options;
  config.apply(o);
  o.stream = stream;
  const GridOf &g = gridFor(i);
  if (!g.status) return g.status;
  return tegula_launch(&functionOf(config), g.extents, args, n, &o, nullptr) == TEGULA_OK ? Status::ok() : lastStatus();
}

void TuneSubject::prepare(const std::vector<size_t> &wanted) {
  grids_.resize(configs_->size());
  for (size_t i : wanted) gridFor(i);
}

const TuneSubject::GridOf &TuneSubject::gridFor(size_t i) {
  grids_.resize(configs_->size());
  if (!grids_[i]) {
    GridOf g;
    if (!gridOf(*function_, (*configs_)[i], call_.grid, call_.user, g.extents)) g.status = lastStatus();
    grids_[i] = g;
  }
  return *grids_[i];
}

} // namespace tegula::api
