// Streams that are threads of this process: order, failures, events, memory that waits.
#include "runtime/HostMemory.h"
#include <atomic>
#include <gtest/gtest.h>

using namespace tegula::runtime;

namespace {

HostStream::Work add(std::vector<int> &to, int n) {
  return [&to, n](LaunchOutcome &) { return to.push_back(n), Status::ok(); };
}

TEST(HostStream, worksInOrderAndEndsWhenAllIsDone) {
  std::vector<int> done;
  {
    HostStream s;
    for (int i = 0; i < 100; ++i) s.add(add(done, i));
  }
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(HostStream, whatIsBehindAFailureDoesNotRunUntilItIsTold) {
  std::vector<int> done;
  HostStream s;
  s.add(add(done, 1));
  s.add([](LaunchOutcome &o) { return o.fault.code = 3, Status::error(TEGULA_FAULT, "first"); });
  s.add(add(done, 2));
  s.add([](LaunchOutcome &) { return Status::error(TEGULA_FAULT, "second"); });
  s.settle();
  s.add(add(done, 3));
  LaunchOutcome outcome;
  Status told = s.wait(outcome);
  EXPECT_EQ(told.text, "first");
  EXPECT_EQ(outcome.fault.code, 3);
  s.add(add(done, 4));
  EXPECT_TRUE(s.wait(outcome));
  EXPECT_EQ(done, (std::vector<int>{1, 4}));
}

TEST(HostStream, eventsArePassedBehindAFailureToo) {
  HostStream a, b;
  HostEvent e;
  EXPECT_TRUE(e.isPast());
  std::atomic<bool> open = false;
  std::vector<int> done;
  a.add([&](LaunchOutcome &) {
    while (!open) std::this_thread::yield();
    return Status::error(TEGULA_FAULT, "bad");
  });
  e.record(&a);
  e.holdBack(&b);
  b.add(add(done, 1));
  EXPECT_FALSE(e.isPast());
  open = true;
  e.wait();
  EXPECT_TRUE(e.isPast());
  LaunchOutcome outcome;
  EXPECT_TRUE(b.wait(outcome));
  EXPECT_EQ(done.size(), 1u);
  EXPECT_FALSE(a.wait(outcome));
}

TEST(HostStream, manyThreadsQueueWork) {
  HostStream s;
  std::atomic<int> sum = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) s.add([&](LaunchOutcome &) { return ++sum, Status::ok(); });
      });
  }
  LaunchOutcome outcome;
  EXPECT_TRUE(s.wait(outcome));
  EXPECT_EQ(sum, 800);
}

TEST(HostDevice, graphsDoWhatWasRecorded) {
  ThreadPool pool;
  CancelTable cancel;
  std::unique_ptr<Device> d = makeCpuDevice(pool, cancel);
  void *stream = nullptr, *other = nullptr, *memory = nullptr;
  ASSERT_TRUE(d->makeStream(&stream) && d->makeStream(&other) && d->allocate(8, &memory));
  uint64_t value = 1, back = 7;
  ASSERT_TRUE(d->copyIn(memory, &back, 8, nullptr));
  Status status;
  EXPECT_FALSE(d->beginGraph(nullptr));
  EXPECT_EQ(d->endGraph(stream, status), nullptr);
  EXPECT_EQ(status.text, "the stream records no graph");
  ASSERT_TRUE(d->beginGraph(stream));
  EXPECT_TRUE(d->isRecording(stream) && !d->isRecording(other) && !d->isRecording(nullptr));
  EXPECT_EQ(d->beginGraph(stream).text, "the stream records a graph already");
  ASSERT_TRUE(d->queueCopyIn(memory, &value, 8, stream));
  ASSERT_TRUE(d->queueCopyOut(&back, memory, 8, stream));
  std::unique_ptr<Graph> g = d->endGraph(stream, status);
  ASSERT_TRUE(g);
  EXPECT_EQ(g->operations(), 2u);
  LaunchOutcome outcome;
  ASSERT_TRUE(d->synchronize(stream, outcome));
  EXPECT_EQ(back, 7u);
  for (void *on : {stream, other, static_cast<void *>(nullptr)}) {
    value += 5; // read when the graph runs
    ASSERT_TRUE(g->launch(on, outcome) && d->synchronize(on, outcome));
    EXPECT_EQ(back, value);
  }
  // A stream holds what it was given.
  value = 99;
  ASSERT_TRUE(g->launch(stream, outcome));
  g.reset();
  ASSERT_TRUE(d->synchronize(stream, outcome));
  EXPECT_EQ(back, 99u);
  ASSERT_TRUE(d->beginGraph(other)); // and ends in the middle of a recording
  d->endStream(other);
  d->endStream(stream);
  d->free(memory);
}

TEST(HostStream, aRecordingKeepsWork) {
  std::vector<int> done;
  HostStream s;
  ASSERT_TRUE(s.beginRecording());
  EXPECT_FALSE(s.beginRecording());
  s.add(add(done, 1));
  s.settle();
  EXPECT_TRUE(done.empty());
  std::optional<std::vector<HostStream::Work>> work = s.endRecording();
  ASSERT_TRUE(work && work->size() == 1);
  EXPECT_FALSE(s.endRecording());
  s.add(add(done, 2));
  s.settle();
  EXPECT_EQ(done, std::vector<int>{2});
}

TEST(HostDevice, copiesAreQueuedAndStreamsAreItsOwn) {
  ThreadPool pool;
  CancelTable cancel;
  std::unique_ptr<Device> d = makeCpuDevice(pool, cancel), other = makeCpuDevice(pool, cancel);
  void *stream = nullptr, *memory = nullptr;
  ASSERT_TRUE(d->makeStream(&stream));
  EXPECT_NE(d->hostStream(stream), nullptr);
  EXPECT_EQ(other->hostStream(stream), nullptr);
  EXPECT_EQ(d->hostStream(nullptr), nullptr);
  ASSERT_TRUE(d->allocate(8, &memory));
  const uint64_t value = 0x0102030405060708;
  uint64_t back = 0;
  ASSERT_TRUE(d->queueCopyIn(memory, &value, 8, stream));
  ASSERT_TRUE(d->queueCopyOut(&back, memory, 8, stream));
  LaunchOutcome outcome;
  ASSERT_TRUE(d->synchronize(stream, outcome));
  EXPECT_EQ(back, value);
  ASSERT_TRUE(d->fill(memory, 0, 8, stream));
  ASSERT_TRUE(d->copyOut(&back, memory, 8, stream)); // waits for what is queued
  EXPECT_EQ(back, 0u);
  Status status;
  std::unique_ptr<Event> a = d->event(status), b = d->event(status);
  double ns = 0;
  EXPECT_FALSE(b->since(*a, ns));
  ASSERT_TRUE(a->record(stream));
  ASSERT_TRUE(b->record(stream));
  ASSERT_TRUE(b->since(*a, ns));
  EXPECT_GE(ns, 0);
  d->settle();
  d->free(memory);
  d->endStream(stream);
  EXPECT_EQ(d->hostStream(stream), nullptr);
}

TEST(ThreadPool, runsOnAnExecutor) {
  struct Task final : RangeTask {
    std::atomic<int64_t> sum{0};
    std::atomic<int> polls{0};
    bool run(int64_t begin, int64_t end) override {
      for (; begin < end; ++begin) sum += begin;
      return true;
    }
    void poll() override { ++polls; }
  };
  ThreadPool pool;
  std::atomic<int> calls = 0;
  pool.runOn({&calls, [](void *user, uint32_t count, void (*task)(void *, uint32_t), void *data) {
                ++*static_cast<std::atomic<int> *>(user);
                std::vector<std::jthread> threads;
                for (uint32_t i = 0; i < count; ++i) threads.emplace_back([=] { task(data, i); });
              }});
  for (bool callerWorks : {true, false}) {
    Task task;
    pool.run(task, 1000, 4, callerWorks);
    EXPECT_EQ(task.sum, 499500);
  }
  EXPECT_EQ(calls, 2);
}

} // namespace
