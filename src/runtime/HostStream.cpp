// Compiled with exceptions, like ThreadPool.cpp: std::thread throws if the system has no more threads.
#include "runtime/HostStream.h"
#include <new>
#include <system_error>

namespace tegula::runtime {

HostStream::~HostStream() {
  settle();
  if (thread_) thread_->request_stop();
  wake_.notify_all();
}

void HostStream::settle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void HostStream::run(Item &item) {
  if (item.mark) return item.mark();
  {
    std::lock_guard lock(mutex_);
    if (!failure_) return;
  }
  LaunchOutcome outcome;
  Status s = item.work(outcome);
  std::lock_guard lock(mutex_);
  if (!s) failure_ = std::move(s), outcome_ = std::move(outcome);
}

void HostStream::serve(const std::stop_token &stop) {
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [&] { return !queue_.empty(); })) {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    run(item);
    item = {}; // destroyed before the stream is idle
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

void HostStream::push(Item item) {
  bool queued;
  {
    std::lock_guard lock(mutex_);
    if (!thread_) {
      try {
        thread_ = std::make_unique<std::jthread>([this](const std::stop_token &stop) { serve(stop); });
      } catch (const std::system_error &) {
      }
    }
    queued = thread_ != nullptr;
    if (queued) queue_.push_back(std::move(item));
  }
  if (queued) wake_.notify_one();
  else run(item);
}

void HostStream::add(Work work) {
  {
    std::lock_guard lock(mutex_);
    if (recording_) return recording_->push_back(std::move(work));
  }
  push({std::move(work), {}});
}
void HostStream::addMark(std::function<void()> mark) { push({{}, std::move(mark)}); }

bool HostStream::beginRecording() {
  std::lock_guard lock(mutex_);
  if (recording_) return false;
  recording_.emplace();
  return true;
}
std::optional<std::vector<HostStream::Work>> HostStream::endRecording() {
  std::lock_guard lock(mutex_);
  return std::exchange(recording_, std::nullopt);
}
bool HostStream::isRecording() const {
  std::lock_guard lock(mutex_);
  return recording_.has_value();
}

Status HostStream::wait(LaunchOutcome &outcome) {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return queue_.empty() && !busy_; });
  outcome = std::exchange(outcome_, {});
  return std::exchange(failure_, Status::ok());
}

/// The child has the object but not the thread: the queued work belongs to the parent. Objects that the thread may have
/// been modifying are not destroyed.
void HostStream::afterFork() {
  (void)thread_.release();
  new (&queue_) std::deque<Item>;
  new (&mutex_) std::mutex;
  new (&wake_) std::condition_variable_any;
  new (&idle_) std::condition_variable;
  busy_ = false;
}

void HostEvent::Point::pass() {
  std::lock_guard lock(mutex);
  time = std::chrono::steady_clock::now();
  isPast = true;
  passed.notify_all();
}

void HostEvent::Point::wait() {
  std::unique_lock lock(mutex);
  passed.wait(lock, [&] { return isPast; });
}

void HostEvent::record(HostStream *stream) {
  auto p = std::make_shared<Point>();
  {
    std::lock_guard lock(mutex_);
    point_ = p;
  }
  if (stream) stream->addMark([p] { p->pass(); });
  else p->pass();
}

bool HostEvent::isPast() const {
  std::shared_ptr<Point> p = point();
  if (!p) return true;
  std::lock_guard lock(p->mutex);
  return p->isPast;
}

void HostEvent::wait() const {
  if (std::shared_ptr<Point> p = point()) p->wait();
}

void HostEvent::holdBack(HostStream *stream) const {
  std::shared_ptr<Point> p = point();
  if (!p) return;
  if (stream) stream->addMark([p] { p->wait(); });
  else p->wait();
}

bool HostEvent::time(std::chrono::steady_clock::time_point &out) const {
  std::shared_ptr<Point> p = point();
  if (!p) return false;
  p->wait();
  out = p->time;
  return true;
}

} // namespace tegula::runtime
