// Eight threads compile and launch kernels of a .py file on std::vector data; no Python is involved.
#include <cmath>
#include <cstdio>
#include <tegula/tegula.hpp>
#include <thread>
#include <vector>

/// One thread's share: both kernels on its own data. Returns the number of wrong elements.
static int work(const tegula::Function &scaleAdd, const tegula::Function &rowSums, int seed) {
  const int n = 10'000 + 1'111 * seed, rows = 37, columns = 200 + 16 * seed;
  std::vector<float> x(n), y(n), out(n, -1.0f), matrix(rows * columns), sums(rows);
  for (int i = 0; i < n; ++i) x[i] = float(i % 100), y[i] = float(seed);
  for (int i = 0; i < rows * columns; ++i) matrix[i] = float(i % 7);

  const std::vector<float> &in = x; // a const span: the kernel may not store to it
  tegula::Status s = scaleAdd((n + 1023) / 1024, {std::span(in), std::span(y), std::span(out), 0.5f, n, 1024});
  if (s) s = rowSums(rows, {std::span(matrix), std::span(sums), columns, 128});
  if (!s) {
    std::fprintf(stderr, "%s\n", s.message().c_str());
    return 1;
  }
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += out[i] != 0.5f * x[i] + y[i];
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += matrix[r * columns + c];
    wrong += std::fabs(sum - sums[r]) > 1e-3 * sum;
  }
  return wrong;
}

int main() {
  // Loading reports every mistake in the file at once.
  tegula::Context context = tegula::Context::create().value();
  tegula::Module kernels = context.load(KERNELS).value();
  tegula::Function scaleAdd = kernels.kernel("scale_add").value(), rowSums = kernels.kernel("row_sums").value();

  int wrong[8] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&, t] {
    for (int round = 0; round < 10; ++round) wrong[t] += work(scaleAdd, rowSums, t);
  });
  for (std::thread &t : threads) t.join();

  int total = 0;
  for (int w : wrong) total += w;

  // Mistakes are values, with place and reason.
  std::vector<float> data(16);
  tegula::Status s = scaleAdd(1, {std::span(data), std::span(data), std::span(data), 1.0f, 16, 0});
  std::printf("an empty block is refused: %s\n", s ? "no!" : s.diagnostics().empty() ? s.message().c_str() : s.diagnostics()[0].text.c_str());
  if (s) ++total;

  std::printf("8 threads: %s\n", total == 0 ? "all right" : "WRONG RESULTS");
  return total == 0 ? 0 : 1;
}
