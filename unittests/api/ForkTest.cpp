// fork() while other threads compile: the child compiles and launches the same.
#include "Fixture.h"
#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tegula;
using namespace tegula::test;

TEST(Fork, TheChildCompilesWhatOthersWereCompiling) {
  Context c = context();
  Module m = module(c, R"(@triton.jit
def power(out, N: tl.constexpr):
    v = tl.program_id(0) + 2
    r = v * 0 + 1
    for i in tl.static_range(N):
        r = r * v
    tl.store(out, r)
)");
  Function power = m.kernel("power").value();
  auto run = [&](int n) {
    alignas(64) int32_t out[16] = {};
    Arg args[] = {Arg(std::span(out)), Arg(n)};
    return power(1, args) ? out[0] : -1;
  };
  for (int turn = 1; turn <= 20; ++turn) {
    std::atomic<int> begun{0}, bad{0};
    std::vector<std::jthread> others;
    for (int t = 0; t < 3; ++t)
      others.emplace_back([&] {
        ++begun;
        bad += run(turn) != 1 << turn;
      });
    while (begun == 0) std::this_thread::yield();
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(run(turn) == 1 << turn && run(turn + 1) == 1 << (turn + 1) ? 7 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    others.clear();
    ASSERT_TRUE(WIFEXITED(status)) << "turn " << turn << ", signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 7) << turn;
    ASSERT_EQ(bad, 0);
  }
}
