#include "Engine.h"
#include <algorithm>

namespace llm {

const char *finishName(Finish f) {
  switch (f) {
  case Finish::No: return "";
  case Finish::Length: return "length";
  case Finish::Stop: return "stop";
  case Finish::Cancelled: return "cancelled";
  }
  return "";
}

Status Engine::add(Request r) {
  auto same = [&](const Request &other) { return other.id == r.id; };
  if (std::ranges::any_of(waiting_, same) || std::ranges::any_of(running_, [&](const Sequence &s) { return same(s.request); })) return invalid("a request `" + r.id + "` is under way");
  if (r.prompt.empty()) return invalid("the prompt is empty");
  if (r.maxNew < 1) return invalid("max_new_tokens is " + std::to_string(r.maxNew) + "; it must be at least 1");
  for (int32_t t : r.prompt)
    if (t < 0 || t >= model_.config().vocab) return invalid("token " + std::to_string(t) + " is not in the vocabulary of " + std::to_string(model_.config().vocab));
  int64_t longest = std::min(model_.limits().context, pages_.pages() * pageTokens), wanted = int64_t(r.prompt.size()) + r.maxNew;
  if (wanted > longest)
    return invalid(std::to_string(r.prompt.size()) + " tokens and " + std::to_string(r.maxNew) + " new ones do not fit the context of " + std::to_string(longest));
  waiting_.push_back(std::move(r));
  return {};
}

bool Engine::cancel(const std::string &id) {
  auto end = [&] {
    ended_.push_back({id, -1, Finish::Cancelled});
    return true;
  };
  if (std::erase_if(waiting_, [&](const Request &r) { return r.id == id; })) return end();
  auto it = std::ranges::find_if(running_, [&](const Sequence &s) { return s.request.id == id; });
  if (it == running_.end()) return false;
  pages_.release(it->line);
  running_.erase(it);
  return end();
}

Result<std::vector<Event>> Engine::step() {
  std::vector<Event> events = std::exchange(ended_, {});
  while (!waiting_.empty()) {
    // The last token is not written to the cache.
    int64_t line = pages_.take(int64_t(waiting_.front().prompt.size()) + waiting_.front().maxNew - 1);
    if (line < 0) break;
    running_.push_back({std::move(waiting_.front()), line, ++serial_});
    waiting_.pop_front();
  }
  if (Status s = queueStep(); !s) return s;
  // Where the device works beside the host, the tokens of a step are taken once the next one is queued.
  while (queued_.size() > size_t(model_.canQueueAhead() && isQueuedNow_) || (running_.empty() && !queued_.empty()))
    if (Status s = takeStep(events); !s) return s;
  return events;
}

/// Queues a step of what is known, or what the step in front of it will say, of the running sequences; isQueuedNow_: there was something to do.
Status Engine::queueStep() {
  // One row for each sequence that answers; prompts share the other rows, first come first served.
  auto answers = [](const Sequence &s) { return s.done >= int64_t(s.request.prompt.size()); };
  int64_t left = model_.limits().rows;
  for (const Sequence &s : running_) left -= answers(s);
  std::vector<Span> spans;
  std::vector<uint64_t> wanted;
  for (Sequence &s : running_) {
    Span span;
    int64_t chosen = int64_t(s.answer.size()) + (s.next >= 0);
    span.line = s.line, span.position = s.done, span.sampling = s.request.sampling, span.step = int32_t(chosen);
    if (answers(s)) {
      if (chosen == s.request.maxNew) continue; // its last token is on the way
      span.tokens = {s.next >= 0 ? follows(s.next) : s.answer.back()};
    } else {
      const std::vector<int32_t> &prompt = s.request.prompt;
      int64_t count = std::min(int64_t(prompt.size()) - s.done, left);
      if (count <= 0) continue;
      left -= count;
      span.tokens.assign(prompt.begin() + s.done, prompt.begin() + s.done + count);
      span.wantsToken = s.done + count == int64_t(prompt.size());
    }
    s.done += int64_t(span.tokens.size());
    if (span.wantsToken) s.next = int64_t(wanted.size()), wanted.push_back(s.serial);
    spans.push_back(std::move(span));
  }
  isQueuedNow_ = !spans.empty();
  if (spans.empty()) return {};
  queued_.push_back(std::move(wanted));
  return model_.queue(spans, pages_);
}

/// The tokens of the oldest step under way. Sequences that have ended since have nobody who waits for theirs.
Status Engine::takeStep(std::vector<Event> &events) {
  std::vector<uint64_t> wanted = std::move(queued_.front());
  queued_.pop_front();
  Result<std::vector<int32_t>> tokens = model_.take();
  if (!tokens) return tokens.status();
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto s = std::ranges::find(running_, wanted[i], &Sequence::serial);
    if (s == running_.end()) continue;
    int32_t token = (*tokens)[i];
    s->answer.push_back(token);
    if (queued_.empty()) s->next = -1;
    Finish finish = std::ranges::count(s->request.stop, token) ? Finish::Stop : int64_t(s->answer.size()) == s->request.maxNew ? Finish::Length : Finish::No;
    events.push_back({s->request.id, token, finish});
    if (finish == Finish::No) continue;
    pages_.release(s->line);
    running_.erase(s);
  }
  return {};
}

Engine::~Engine() {
  for (; !queued_.empty(); queued_.pop_front()) (void)model_.take();
}

} // namespace llm
