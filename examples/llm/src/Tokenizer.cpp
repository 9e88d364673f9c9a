#include "Tokenizer.h"
#include "Files.h"
#include <algorithm>
#include <array>
#include <climits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace llm {

namespace {

/// The expression of a ByteLevel pre-tokenizer that has none of its own (GPT-2's).
constexpr const char *defaultPattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The printable characters that stand for bytes in the file: a byte that prints is itself, the others count on from U+0100.
std::array<std::string, 256> byteCharacters() {
  std::array<std::string, 256> all;
  unsigned next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    unsigned c = prints ? b : next++;
    if (c < 0x80) all[b] = {char(c)};
    else all[b] = {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  }
  return all;
}

struct FreeCode {
  void operator()(pcre2_code *c) const { pcre2_code_free(c); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

} // namespace

struct Tokenizer::Tables {
  std::unordered_map<std::string, int32_t> tokens; // by text in the file
  std::unordered_map<int32_t, std::string> bytes;  // by number
  std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> merges; // a pair's rank and result
  std::vector<std::pair<std::string, int32_t>> special;                      // the longest first
  std::vector<Code> patterns;                                               // one after the other, each on the pieces of the one before
  std::array<std::string, 256> characters = byteCharacters();
  bool ignoreMerges = false;

  void word(std::string_view word, std::vector<int32_t> &out) const;
  void text(std::string_view text, std::vector<int32_t> &out) const;
  Status pattern(const std::string &path, const std::string &text);
  Status preTokenizer(const std::string &path, const nlohmann::json &j);
};

/// Merges the pair of the lowest rank until there is none.
void Tokenizer::Tables::word(std::string_view word, std::vector<int32_t> &out) const {
  std::string whole;
  for (unsigned char b : word) whole += characters[b];
  if (auto it = tokens.find(whole); ignoreMerges && it != tokens.end()) return out.push_back(it->second);
  std::vector<int32_t> parts;
  for (unsigned char b : word)
    if (auto it = tokens.find(characters[b]); it != tokens.end()) parts.push_back(it->second);
  while (parts.size() > 1) {
    int32_t best = INT_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (auto it = merges.find({parts[i], parts[i + 1]}); it != merges.end()) best = std::min(best, it->second.first);
    if (best == INT_MAX) break;
    std::vector<int32_t> merged;
    for (size_t i = 0; i < parts.size(); ++i) {
      auto it = i + 1 < parts.size() ? merges.find({parts[i], parts[i + 1]}) : merges.end();
      bool here = it != merges.end() && it->second.first == best;
      merged.push_back(here ? it->second.second : parts[i]);
      i += here;
    }
    parts = std::move(merged);
  }
  out.insert(out.end(), parts.begin(), parts.end());
}

/// A text without special tokens: into words, each pattern isolating its matches.
void Tokenizer::Tables::text(std::string_view text, std::vector<int32_t> &out) const {
  std::vector<std::string_view> words{text};
  for (const Code &code : patterns) {
    std::vector<std::string_view> pieces;
    std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> found(pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
    for (std::string_view w : words) {
      size_t at = 0;
      while (at < w.size() && pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(w.data()), w.size(), at, 0, found.get(), nullptr) > 0) {
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(found.get());
        if (range[1] <= range[0]) break;
        if (range[0] > at) pieces.push_back(w.substr(at, range[0] - at));
        pieces.push_back(w.substr(range[0], range[1] - range[0]));
        at = range[1];
      }
      if (at < w.size()) pieces.push_back(w.substr(at));
    }
    words = std::move(pieces);
  }
  for (std::string_view w : words) word(w, out);
}

Status Tokenizer::Tables::pattern(const std::string &path, const std::string &text) {
  int error = 0;
  PCRE2_SIZE where = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.c_str()), text.size(), PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (!code) {
    PCRE2_UCHAR why[200];
    pcre2_get_error_message(error, why, sizeof why);
    return invalid(path + ": the pre-tokenizer's expression: " + reinterpret_cast<const char *>(why) + " at character " + std::to_string(where));
  }
  patterns.push_back(std::move(code));
  return {};
}

Status Tokenizer::Tables::preTokenizer(const std::string &path, const nlohmann::json &j) {
  std::string type = j.is_object() ? j.value("type", "") : "";
  if (type == "Sequence" && j.contains("pretokenizers") && j["pretokenizers"].is_array()) {
    for (const auto &part : j["pretokenizers"])
      if (Status s = preTokenizer(path, part); !s) return s;
    return {};
  }
  if (type == "ByteLevel") {
    if (j.value("add_prefix_space", false)) return fail(TEGULA_UNSUPPORTED, path + ": add_prefix_space of the pre-tokenizer is not supported");
    return j.value("use_regex", true) ? pattern(path, defaultPattern) : Status();
  }
  if (type == "Split" && j.contains("pattern") && j["pattern"].is_object() && j["pattern"].contains("Regex") && j["pattern"]["Regex"].is_string() && j.value("behavior", "") == "Isolated" &&
      !j.value("invert", false))
    return pattern(path, j["pattern"]["Regex"].get<std::string>());
  return fail(TEGULA_UNSUPPORTED, path + ": pre-tokenizer `" + type + "` is not supported; ByteLevel, Split by an isolated Regex and Sequences of them are");
}

Result<Tokenizer> Tokenizer::open(const std::string &path) {
  Result<std::string> text = readFile(path);
  if (!text) return text.status();
  nlohmann::json j = nlohmann::json::parse(*text, nullptr, false);
  if (!j.is_object() || !j.contains("model") || !j["model"].is_object()) return invalid(path + ": not a tokenizer.json: there is no `model`");
  const nlohmann::json &model = j["model"];
  if (model.value("type", "BPE") != "BPE" || !model.contains("vocab") || !model["vocab"].is_object() || !model.contains("merges") || !model["merges"].is_array())
    return fail(TEGULA_UNSUPPORTED, path + ": only byte-level BPE models are supported");
  if (j.contains("normalizer") && !j["normalizer"].is_null()) return fail(TEGULA_UNSUPPORTED, path + ": normalizers are not supported");
  auto t = std::make_shared<Tables>();
  for (auto &[token, number] : model["vocab"].items()) {
    if (!number.is_number_integer()) return invalid(path + ": the number of token `" + token + "` is not an integer");
    t->tokens[token] = number.get<int32_t>();
  }
  std::unordered_map<std::string, char> byteOf;
  for (unsigned b = 0; b < 256; ++b) byteOf[t->characters[b]] = char(b);
  for (auto &[token, number] : t->tokens) {
    std::string bytes;
    for (size_t i = 0; i < token.size();) {
      size_t length = (token[i] & 0xe0) == 0xc0 ? 2 : 1;
      auto it = byteOf.find(token.substr(i, length));
      if (it == byteOf.end()) break;
      bytes += it->second;
      i += length;
    }
    t->bytes[number] = bytes.empty() ? token : bytes;
  }
  int32_t rank = 0;
  for (const auto &m : model["merges"]) {
    std::string left, right;
    if (m.is_string()) {
      std::string pair = m.get<std::string>();
      size_t space = pair.find(' ');
      if (space != std::string::npos) left = pair.substr(0, space), right = pair.substr(space + 1);
    } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      left = m[0].get<std::string>(), right = m[1].get<std::string>();
    }
    auto a = t->tokens.find(left), b = t->tokens.find(right), c = t->tokens.find(left + right);
    if (a == t->tokens.end() || b == t->tokens.end() || c == t->tokens.end()) return invalid(path + ": merge " + std::to_string(rank) + " is not of two tokens that make a third: " + m.dump());
    t->merges.emplace(std::pair(a->second, b->second), std::pair(rank, c->second));
    ++rank;
  }
  if (j.contains("pre_tokenizer") && !j["pre_tokenizer"].is_null())
    if (Status s = t->preTokenizer(path, j["pre_tokenizer"]); !s) return s;
  if (j.contains("added_tokens") && j["added_tokens"].is_array())
    for (const auto &a : j["added_tokens"])
      if (a.is_object() && a.contains("content") && a["content"].is_string() && a.contains("id") && a["id"].is_number_integer()) {
        std::string content = a["content"].get<std::string>();
        t->special.emplace_back(content, a["id"].get<int32_t>());
        t->tokens[content] = t->special.back().second;
        t->bytes[t->special.back().second] = content;
      }
  std::ranges::sort(t->special, [](const auto &a, const auto &b) { return std::pair(-int64_t(a.first.size()), a.second) < std::pair(-int64_t(b.first.size()), b.second); });
  t->ignoreMerges = model.value("ignore_merges", false);
  Tokenizer tokenizer;
  tokenizer.tables_ = std::move(t);
  return tokenizer;
}

std::vector<int32_t> Tokenizer::encode(const std::string &text) const {
  std::vector<int32_t> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    auto hit = std::ranges::find_if(tables_->special, [&](const auto &s) { return !s.first.empty() && text.compare(at, s.first.size(), s.first) == 0; });
    if (hit == tables_->special.end()) {
      ++at;
      continue;
    }
    tables_->text(std::string_view(text).substr(begin, at - begin), out);
    out.push_back(hit->second);
    begin = at += hit->first.size();
  }
  tables_->text(std::string_view(text).substr(begin), out);
  return out;
}

std::string Tokenizer::bytes(int32_t token) const {
  auto it = tables_->bytes.find(token);
  return it == tables_->bytes.end() ? "" : it->second;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (int32_t t : tokens) text += bytes(t);
  return text;
}

int32_t Tokenizer::find(const std::string &token) const {
  auto it = tables_->tokens.find(token);
  return it == tables_->tokens.end() ? -1 : it->second;
}

int64_t Tokenizer::size() const {
  int64_t largest = -1;
  for (auto &[number, bytes] : tables_->bytes) largest = std::max<int64_t>(largest, number);
  return largest + 1;
}

} // namespace llm
