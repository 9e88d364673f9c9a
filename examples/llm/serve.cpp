// serve: one process that answers requests in a continuous batch. JSON lines in, JSON lines out, in any order of requests; docs/llm.md has the protocol.
#include "NormalForm.h"
#include "Options.h"
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

using namespace llm;
using nlohmann::json;

namespace {

/// Lines of standard input, read by a thread of their own, so that requests and cancellations come in while a step runs.
class Lines {
public:
  Lines() : thread_([this] {
      for (std::string line; std::getline(std::cin, line);) push(std::move(line));
      std::lock_guard lock(mutex_);
      ended_ = true;
      there_.notify_one();
    }) {}
  ~Lines() { thread_.join(); }
  /// All that have come; if `wait`, at least one, unless the input has ended.
  std::vector<std::string> take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) there_.wait(lock, [&] { return ended_ || !lines_.empty(); });
    return std::exchange(lines_, {});
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return ended_ && lines_.empty();
  }

private:
  void push(std::string line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    there_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable there_;
  std::vector<std::string> lines_;
  bool ended_ = false;
  std::thread thread_;
};

void say(const json &j) {
  // What is no UTF-8 is replaced in the text; `token` is exact.
  std::string text = j.dump(-1, ' ', false, json::error_handler_t::replace);
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

uint64_t compiles(const tegula::Context &context) {
  TegulaCacheStat stat{};
  stat.size = sizeof stat;
  (void)tegula_cache_stat(context.get(), &stat);
  return stat.compiles + stat.disk_hits;
}

class Server {
public:
  explicit Server(Session &session) : session_(session), engine_(*session.model), compiled_(compiles(session.context)) {}
  void line(const std::string &text);
  Status step();
  bool idle() const { return engine_.idle(); }
  json stats() const;

private:
  Result<Request> request(const json &j) const;
  Session &session_;
  Engine engine_;
  struct Answer {
    std::vector<int32_t> tokens;
    std::string unsaid; // bytes of a character whose others come with the next token
  };
  std::map<std::string, Answer> answers_;
  uint64_t compiled_;
  int64_t received_ = 0, completed_ = 0, cancelled_ = 0, refused_ = 0, tokens_ = 0, steps_ = 0;
};

Result<Request> Server::request(const json &j) const {
  Request r;
  auto token = [](const json &t) { return t.is_number_integer() && (t.is_number_unsigned() ? t.get<uint64_t>() <= INT32_MAX : t.get<int64_t>() >= INT32_MIN); };
  for (const auto &[key, value] : j.items()) // a misspelt one would be left out in silence
    if (!std::ranges::count(std::initializer_list<std::string_view>{"id", "prompt", "tokens", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "stop"}, key))
      return invalid("there is no `" + key + "` in a request");
  if (!j.contains("id") || !j["id"].is_string()) return invalid("`id` must be a text");
  r.id = j["id"].get<std::string>();
  if (j.contains("tokens") && j.contains("prompt")) return invalid("there are both `prompt` and `tokens`");
  if (j.contains("tokens")) {
    if (!j["tokens"].is_array()) return invalid("`tokens` must be a list of numbers");
    for (const json &t : j["tokens"]) {
      if (!token(t)) return invalid("`tokens` must be a list of numbers");
      r.prompt.push_back(t.get<int32_t>());
    }
  } else if (j.contains("prompt")) {
    if (!j["prompt"].is_string()) return invalid("`prompt` must be a text");
    if (!session_.tokenizer) return invalid("`prompt` wants a tokenizer; start serve with --tokenizer, or send `tokens`");
    r.prompt = session_.tokenizer->encode(j["prompt"].get<std::string>());
  } else {
    return invalid("there is neither `prompt` nor `tokens`");
  }
  Status wrong;
  auto number = [&](const char *name, auto &to, double least, double most) {
    if (!j.contains(name) || !wrong) return;
    using T = std::remove_reference_t<decltype(to)>;
    if (!j[name].is_number() || (std::is_integral_v<T> && !j[name].is_number_integer()) || j[name].get<double>() < least || j[name].get<double>() > most)
      wrong = invalid(std::string("`") + name + "` must be " + (std::is_integral_v<T> ? "a whole number" : "a number") + " from " + json(int64_t(least)).dump() + " to " + json(int64_t(most)).dump());
    else to = j[name].get<T>();
  };
  number("max_new_tokens", r.maxNew, 1, 1e9);
  number("temperature", r.sampling.temperature, 0, 100);
  number("top_k", r.sampling.topK, 0, 1e9);
  number("top_p", r.sampling.topP, 0, 1);
  number("seed", r.sampling.seed, 0, 2147483647);
  if (!wrong) return wrong;
  if (j.contains("stop")) {
    if (!j["stop"].is_array()) return invalid("`stop` must be a list of tokens");
    for (const json &t : j["stop"]) {
      if (!token(t)) return invalid("`stop` must be a list of tokens");
      r.stop.push_back(t.get<int32_t>());
    }
  }
  const std::vector<int32_t> &eos = session_.model->config().eos;
  r.stop.insert(r.stop.end(), eos.begin(), eos.end());
  return r;
}

void Server::line(const std::string &text) {
  if (text.find_first_not_of(" \t\r") == std::string::npos) return;
  json j = json::parse(text, nullptr, false);
  auto refuse = [&](const std::string &why) {
    json answer = {{"error", why}};
    if (j.is_object() && j.contains("id") && j["id"].is_string()) answer["id"] = j["id"];
    ++refused_;
    say(answer);
  };
  if (!j.is_object()) return refuse("not a JSON object");
  if (j.contains("stats")) return say(stats());
  if (j.contains("cancel")) {
    if (!j["cancel"].is_string()) return refuse("`cancel` must be an id");
    if (!engine_.cancel(j["cancel"].get<std::string>())) refuse("no request `" + j["cancel"].get<std::string>() + "` is under way");
    return;
  }
  ++received_;
  Result<Request> r = request(j);
  std::string id = r ? r->id : "";
  Status s = r ? engine_.add(std::move(*r)) : r.status();
  if (!s) return refuse(s.message());
  answers_[id] = {};
}

Status Server::step() {
  Result<std::vector<Event>> events = engine_.step();
  if (!events) return events.status();
  ++steps_;
  for (const Event &e : *events) {
    Answer &answer = answers_[e.id];
    if (e.token >= 0) {
      json j = {{"id", e.id}, {"token", e.token}};
      if (session_.tokenizer) {
        std::string text = answer.unsaid + session_.tokenizer->bytes(e.token);
        size_t whole = e.finish == Finish::No ? withoutUnfinished(text) : text.size();
        j["text"] = text.substr(0, whole);
        answer.unsaid = text.substr(whole);
      }
      say(j);
      answer.tokens.push_back(e.token);
      ++tokens_;
    }
    if (e.finish == Finish::No) continue;
    json j = {{"id", e.id}, {"done", finishName(e.finish)}, {"tokens", answer.tokens}};
    if (session_.tokenizer) j["text"] = session_.tokenizer->decode(answer.tokens);
    say(j);
    ++(e.finish == Finish::Cancelled ? cancelled_ : completed_);
    answers_.erase(e.id);
  }
  return {};
}

json Server::stats() const {
  return {{"stats",
           {{"received", received_},
            {"refused", refused_},
            {"completed", completed_},
            {"cancelled", cancelled_},
            {"running", engine_.running()},
            {"waiting", engine_.waiting()},
            {"tokens", tokens_},
            {"steps", steps_},
            {"pages", engine_.pages().pages()},
            {"free_pages", engine_.pages().freePages()},
            {"kernels_compiled_since_start", compiles(session_.context) - compiled_}}}};
}

} // namespace

int main(int argc, char **argv) {
  ModelOptions options;
  options.batch = 32;
  options.usualContext = 1024;
  CommandLine line("serve", "answers requests in a continuous batch; JSON lines on standard input and output");
  options.declare(line);
  int code = 0;
  if (!line.parse(argc, argv, code)) return code;
  Result<Session> session = Session::open(options);
  if (!session) return complain("serve", session.status());
  if (Status s = session->model->warmUp(); !s) return complain("serve", s);
  // From here on a launch that would have to compile fails.
  if (Status s = Status::from(tegula_context_set_no_jit(session->context.get(), 1)); !s) return complain("serve", s);
  say({{"ready", {{"batch", session->model->limits().sequences}, {"context", session->model->limits().context}, {"vocab", session->model->config().vocab}}}});
  Server server(*session);
  Lines lines;
  Status failed;
  while (failed && !(lines.ended() && server.idle())) {
    for (const std::string &l : lines.take(server.idle())) server.line(l);
    if (!server.idle()) failed = server.step();
  }
  if (!failed) {
    complain("serve", failed);
    std::fflush(nullptr);
    std::_Exit(1); // the reading thread may wait for a line for ever
  }
  say(server.stats());
  return 0;
}
