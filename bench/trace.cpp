// trace-bench [calls]: milliseconds until attention in C++ (test/cpp/twins/kernels.hpp) can be compiled, for constexprs that are new: the lambda written down, and its text taken by the library,
// which reads the C++ file for names and places. Median and least of all calls, and the first one.
#include "../test/cpp/twins/kernels.hpp"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {
double milliseconds(std::chrono::steady_clock::time_point begun) { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count(); }
void print(const char *what, std::vector<double> &times) {
  const double first = times.front();
  std::sort(times.begin(), times.end());
  std::printf("%-8s median %.4f least %.4f first %.4f ms\n", what, times[times.size() / 2], times.front(), first);
}
} // namespace

int main(int argc, char **argv) {
  const int calls = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 500;
  tegula::Context context = tegula::Context::create().value();
  std::vector<double> writing, taking, both;
  size_t bytes = 0, places = 0;
  for (int i = 0; i < calls; ++i) {
    auto begun = std::chrono::steady_clock::now();
    tg::Source s = attention.source(64, 32, 64);
    writing.push_back(milliseconds(begun));
    begun = std::chrono::steady_clock::now();
    TegulaModule *m = nullptr;
    if (tegula_module_from_trace(context.get(), "attention", s.text.data(), s.text.size(), s.origins.data(), s.origins.size(), &m)) return std::fprintf(stderr, "%s\n", tegula_last_error()), 1;
    taking.push_back(milliseconds(begun));
    both.push_back(writing.back() + taking.back());
    tegula_module_release(m);
    bytes = s.text.size(), places = s.origins.size();
  }
  print("written", writing), print("taken", taking), print("both", both);
  std::printf("%zu bytes, %zu places\n", bytes, places);
}
