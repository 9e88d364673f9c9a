#include "Bandwidth.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

namespace llm {

double processorSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

Bandwidth readBandwidth(int threads) {
  if (threads <= 0) threads = int(std::max(1u, std::thread::hardware_concurrency()));
  constexpr size_t words = size_t(256) << 17; // 256 MiB of uint64_t
  std::vector<std::vector<uint64_t>> data(size_t(threads), std::vector<uint64_t>(words, 1));
  std::atomic<uint64_t> sink = 0;
  Bandwidth best;
  for (int round = 0; round < 5; ++round) {
    double processor = processorSeconds();
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> all;
    for (const std::vector<uint64_t> &d : data)
      all.emplace_back([&] {
        uint64_t sums[16] = {}; // enough to keep loads in flight; compilers make vectors of it
        for (size_t i = 0; i < words; i += 16)
          for (size_t j = 0; j < 16; ++j) sums[j] += d[i + j];
        for (uint64_t s : sums) sink += s;
      });
    for (std::thread &t : all) t.join();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    double bytes = double(words) * 8 * threads;
    best.bytesPerSecond = std::max(best.bytesPerSecond, bytes / seconds);
    best.bytesPerProcessorSecond = std::max(best.bytesPerProcessorSecond, bytes / (processorSeconds() - processor));
  }
  return best;
}

} // namespace llm
