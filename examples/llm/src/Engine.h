// Continuous batching: requests come and go between steps, and each step holds one token of every sequence that answers and pieces of the prompts that wait.
#pragma once
#include "Model.h"
#include <deque>

namespace llm {

struct Request {
  std::string id;
  std::vector<int32_t> prompt; // at least one token
  int64_t maxNew = 16;
  Sampling sampling;
  std::vector<int32_t> stop; // tokens that end the answer, and are part of it
};

enum class Finish { No, Length, Stop, Cancelled };
const char *finishName(Finish f);

/// A token of a request's answer, or its end.
struct Event {
  std::string id;
  int32_t token = -1; // -1: none (cancelled)
  Finish finish = Finish::No;
};

/// Schedules requests on a model. Used by one thread.
class Engine {
public:
  explicit Engine(Model &model) : model_(model), pages_(model.makePages()) {}
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  /// Queues a request. TEGULA_INVALID_ARGUMENT if it can never run: no prompt, too long for the context or for the cache, an unknown token, an id that is in use.
  Status add(Request request);
  /// False if there is no such request now. Its pages are free at once, and the next step() reports the end.
  bool cancel(const std::string &id);
  /// One step of the model, unless there is nothing to do. Where the device works beside the host, the events are those of the step before it, so that one is always
  /// under way; a sequence that ends by a stop token has been in one more step by then. The prompts that fit are begun in the order of their arrival, at most `rows` tokens of them in a step.
  Result<std::vector<Event>> step();

  bool idle() const { return waiting_.empty() && running_.empty() && ended_.empty(); }
  int64_t running() const { return int64_t(running_.size()); }
  int64_t waiting() const { return int64_t(waiting_.size()); }
  const PagedCache &pages() const { return pages_; }
  Model &model() { return model_; }

private:
  struct Sequence {
    Request request;
    int64_t line = -1;
    uint64_t serial = 0;
    int64_t done = 0; // tokens whose rows have been queued
    int64_t next = -1; // the output of the step queued last that is its next token, if that was not taken yet
    std::vector<int32_t> answer;
  };
  Model &model_;
  PagedCache pages_;
  std::deque<Request> waiting_;
  std::vector<Sequence> running_;
  std::vector<Event> ended_; // by cancel()
  Status queueStep();
  Status takeStep(std::vector<Event> &events);
  std::deque<std::vector<uint64_t>> queued_; // by step: the sequences whose tokens it chooses
  uint64_t serial_ = 0;
  bool isQueuedNow_ = false;
};

} // namespace llm
