// Tuned kernels in C++: on the program's own threads, of large spaces, with results that are of the text of each configuration. `tuning`: prints what is wrong, or "right".
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <tegula/tile.hpp>
#include <thread>
#include <vector>

namespace tg = tegula::tile;

static int bad = 0;
static void expect(bool holds, const char *what, const std::string &detail = "") {
  if (!holds) ++bad, std::printf("wrong: %s %s\n", what, detail.c_str());
}
static size_t count(const std::string &text, const char *what) {
  size_t n = 0;
  for (size_t i = 0; (i = text.find(what, i)) != text.npos; i += std::strlen(what)) ++n;
  return n;
}

// Divides by its constants while it is written down: there is no kernel for BLOCK = 0.
constexpr auto sum = tg::kernel("sum(x, out, n, BLOCK, PARTS)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int n, tg::Constexpr<int> BLOCK, tg::Constexpr<int> PARTS) {
  auto total = tg::zeros<float>({BLOCK / PARTS});
  tg::range(0, n, BLOCK, [&](tg::Int start) {
    for (int p = 0; p < PARTS; ++p) {
      auto i = start + p * (BLOCK / PARTS) + tg::arange(0, BLOCK / PARTS);
      total += tg::load(x + i, i < n, 0.0);
    }
  });
  tg::store(out, tg::sum(total, 0));
});

/// Two kernels of one name that differ where BLOCK is 256 only.
template <int factor> constexpr auto scale = tg::kernel("scale(x, n, BLOCK)", [](tg::Ptr<float> x, tg::Int n, tg::Constexpr<int> BLOCK) {
  auto i = tg::program_id(0) * BLOCK + tg::arange(0, BLOCK);
  auto v = tg::load(x + i, i < n);
  if (BLOCK == 256) v = v * float(factor);
  tg::store(x + i, v, i < n);
});

/// Threads of this program, each piece of work on one of its own.
struct Threads {
  std::atomic<unsigned> calls{0};
  std::mutex mutex;
  std::set<std::thread::id> ids;
  void operator()(uint32_t n, tegula::ContextOptions::Task task) {
    ++calls;
    std::vector<std::thread> all;
    for (uint32_t i = 0; i < n; ++i)
      all.emplace_back([this, task, i] {
        {
          std::lock_guard lock(mutex);
          ids.insert(std::this_thread::get_id());
        }
        task(i);
      });
    for (std::thread &t : all) t.join();
  }
};
/// Where kernels are compiled.
struct Log {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  void operator()(int severity, std::string_view) {
    std::lock_guard lock(mutex);
    if (severity == TEGULA_REMARK) ids.insert(std::this_thread::get_id());
  }
};

static tg::Config block(int n) { return {{{"BLOCK", tg::Value::of(n)}}}; }

/// The report of a launch of `scale` in a context of its own.
template <int factor> static std::string tuned(std::vector<tg::Config> configs) {
  auto context = tegula::Context::create().value();
  tegula::TunerOptions options;
  options.progress = 0, options.validate = 0;
  auto t = tg::autotune(scale<factor>, std::move(configs), {"n"}, options);
  std::vector<float> x(1000, 1);
  tegula::LaunchOptions cpu;
  cpu.device = 0;
  auto status = t(context).with(cpu).grid([](tg::ConfigView c) { return tg::grid(tg::cdiv(1000, c["BLOCK"])); })(x, 1000);
  expect(bool(status), "scale", status.message());
  return t(context).tuner()->report();
}

int main() {
  {
    Threads threads;
    Log log;
    tegula::ContextOptions options;
    options.executor(threads).logger(log);
    auto context = tegula::Context::create(options).value();
    tegula::TunerOptions t;
    t.progress = 0, t.persist = 0, t.budget_ms = 20; // too short for all 48 on any machine
    auto large = tg::autotune(sum, tegula::Space{{{"BLOCK", "powers(16, 2048)"}, {"PARTS", "1, 2, 4"}, {"num_warps", "1, 2"}}, {}}, {"n"}, t);
    std::vector<float> x(5000, 1), out(1);
    tegula::LaunchOptions cpu;
    cpu.device = 0;
    auto launch = [&] { return large(context).with(cpu).grid([](tg::ConfigView) { return tg::grid(1); })(x, out, 5000); };
    tegula::Status s = launch();
    expect(s && out[0] == 5000, "sum", s.message());
    std::string report = large(context).tuner()->report();
    expect(count(report, "\"config\":") == 48, "48 configurations", report);
    expect(count(report, "\"state\":\"untried\"") > 0, "a space of more than 32 is searched", report);
    expect(threads.calls > 0, "the executor is called");
    std::set<std::thread::id> elsewhere;
    for (std::thread::id id : log.ids)
      if (!threads.ids.contains(id) && id != std::this_thread::get_id()) elsewhere.insert(id);
    expect(!log.ids.empty() && elsewhere.empty(), "kernels are compiled on the program's threads");
    threads.calls = 0;
    tegula::LaunchOptions sim;
    sim.device = 1;
    std::vector<float> many(1000, 1);
    s = scale<2>(context).with(sim)[tg::grid(4)](many, 1000, 256);
    expect(s && many[999] == 2 && threads.calls == 1, "the simulator runs on the program's threads", s.message());
  }
  auto measured = [](const std::string &report) { return report.find("\"by\":\"measured\"") != report.npos; };
  expect(measured(tuned<2>({block(64), block(256)})), "first measured");
  expect(!measured(tuned<2>({block(256), block(64)})), "in another order: from the file");
  expect(!measured(tuned<2>({block(64)})), "a part of them: from the file");
  expect(measured(tuned<3>({block(64), block(256)})), "another text for one configuration: measured");
  expect(!measured(tuned<3>({block(64)})), "the same text for the other one: from the file");
  auto context = tegula::Context::create().value();
  size_t gone = 0;
  auto f = scale<2>(context).function(64).value();
  expect(tegula_results_forget(f.get(), nullptr, 0, &gone) == TEGULA_OK && gone == 3, "three results are forgotten", std::to_string(gone));
  expect(measured(tuned<2>({block(64)})), "measured again");
  std::printf(bad ? "%d wrong\n" : "right\n", bad);
  return bad != 0;
}
