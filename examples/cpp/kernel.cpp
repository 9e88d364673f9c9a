// A kernel in C++ (tegula/tile.hpp) with its host code in one file: the logarithm of the sum of exponentials of each row of a matrix, in one pass. Tuned, and run on a device
// that is named (cpu, sim, cuda), by default on all that there are.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <tegula/tile.hpp>

namespace tg = tegula::tile;

// Each program has one row. `largest` and `sum` are carried around the loop over its blocks; the last block has a tail, whose elements count as minus infinity.
constexpr auto logsumexp = tg::kernel("logsumexp(x, out, columns, BLOCK)", [](tg::Ptr<const float> x, tg::Ptr<float> out, tg::Int columns, tg::Constexpr<int> BLOCK) {
  auto row = tg::program_id(0);
  auto largest = tg::full<float>({BLOCK}, -INFINITY);
  auto sum = tg::zeros<float>({BLOCK});
  tg::range(0, columns, BLOCK, [&](tg::Int start) {
    auto i = start + tg::arange(0, BLOCK);
    auto v = tg::load(x + row * columns + i, i < columns, -INFINITY);
    auto now = tg::maximum(largest, v);
    // Where nothing but minus infinity came yet, the difference is no number.
    auto known = tg::where(now == -INFINITY, 0.0f, now);
    sum = sum * tg::exp(largest - known) + tg::exp(v - known);
    largest = now;
  });
  auto top = tg::max(largest, 0);
  tg::store(out + row, top + tg::log(tg::sum(sum * tg::exp(largest - top), 0)));
});

int main(int argc, char **argv) {
  tegula::Context context = tegula::Context::create().value();
  std::vector<tegula::Device> devices = argc > 1 ? std::vector{context.device(argv[1]).value()} : context.devices();
  auto tuned = tg::autotune(logsumexp, tegula::Space{{{"BLOCK", "powers(64, 1024)"}}, {}}, {"columns"});

  for (const tegula::Device &device : devices) {
    const bool simulated = device.name() == "sim";
    const int rows = simulated ? 8 : 4096, columns = 1000;
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 10);
    std::vector<float> values(static_cast<size_t>(rows) * columns);
    for (float &v : values) v = normal(random);

    tegula::Stream stream = device.stream().value();
    const auto x = device.upload(values, stream).value();
    auto out = device.allocate<float>(rows).value();
    auto launch = [&]() -> tegula::Status {
      if (tegula::Status s = tuned(context).on(stream).grid([&](tg::ConfigView) { return tg::grid(rows); })(x, out, columns); !s) return s;
      return stream.synchronize();
    };
    tegula::Status s = launch(); // measures the block sizes
    auto start = std::chrono::steady_clock::now();
    if (s) s = launch();
    double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    if (!s) return std::fprintf(stderr, "%s\n", s.message().c_str()), 1;

    std::vector<float> results = out.toVector().value();
    double error = 0;
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(values[static_cast<size_t>(r) * columns + c]));
      error = std::fmax(error, std::fabs(results[static_cast<size_t>(r)] - std::log(sum)));
    }
    std::printf("logsumexp on %s: %d rows of %d, %.1f us, largest error %.1e\n", device.name().c_str(), rows, columns, us, error);
    if (!(error < 1e-3)) return 1;
  }
}
