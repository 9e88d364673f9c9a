#include "Tokenizer.h"
#include "Files.h"
#include "NormalForm.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace llm {

namespace {

using nlohmann::json;

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

/// The byte that "<0x0A>" stands for; -1: another text.
int byteOf(const std::string &token) {
  unsigned value = 0;
  bool form = token.size() == 6 && token.starts_with("<0x") && token[5] == '>';
  return form && std::from_chars(token.data() + 3, token.data() + 5, value, 16).ptr == token.data() + 5 ? int(value) : -1;
}

std::string replaced(std::string_view text, const std::string &from, const std::string &to) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    bool here = text.compare(at, from.size(), from) == 0;
    if (here) out += to;
    else out += text[at];
    at += here ? from.size() : 1;
  }
  return out;
}

/// A text in an object, empty if there is none.
std::string textOf(const json &j, const char *key) {
  auto it = j.is_object() ? j.find(key) : j.end();
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}
bool flagOf(const json &j, const char *key, bool otherwise = false) {
  auto it = j.is_object() ? j.find(key) : j.end();
  return it != j.end() && it->is_boolean() ? it->get<bool>() : otherwise;
}

/// The parts of a Sequence, or the object itself as the only one.
std::vector<json> partsOf(const json &j, const char *key) {
  if (j.is_null()) return {};
  if (textOf(j, "type") != "Sequence" || !j.contains(key) || !j[key].is_array()) return {j};
  std::vector<json> all;
  for (const json &part : j[key]) {
    std::vector<json> inner = partsOf(part, key);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

struct FreeCode {
  void operator()(pcre2_code *c) const { pcre2_code_free(c); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

uint64_t pairKey(int32_t a, int32_t b) { return uint64_t(uint32_t(a)) << 32 | uint32_t(b); }

} // namespace

struct Tokenizer::Tables {
  struct Added {
    std::string text;
    int32_t token;
    bool left, right; // takes the blanks on that side with it
  };
  struct Normalizer {
    enum class Kind { Composed, Prepend, Replace } kind;
    std::string from, to;
  };
  /// An expression that cuts a piece at its matches.
  struct Pattern {
    Code code;
    bool keepsRest; // what lies between matches is a word, too
  };
  struct Merge {
    int32_t rank, result;
  };

  std::string path;
  std::unordered_map<std::string, int32_t> tokens; // by text in the file
  std::unordered_map<int32_t, std::string> bytes;  // by number
  std::unordered_map<uint64_t, Merge> merges;      // by pairKey
  std::array<std::vector<Added>, 256> added;       // by the first byte, the longest first
  std::vector<Normalizer> normalizers;
  std::vector<Pattern> patterns; // one after the other, each on the pieces of the one before
  std::array<std::string, 256> characters = byteCharacters();
  bool ofBytes = false, prefixSpace = false, ignoreMerges = false;
  // Of characters: blanks are written as `blank`, which begins words; which pieces get one in front; the tokens of bytes, if there are all.
  std::string blank;
  enum class Scheme { Never, First, Always } scheme = Scheme::Never;
  bool cutsAtBlanks = false, fuseUnknown = false;
  std::vector<int32_t> byteTokens;
  int32_t unknown = -1;
  std::vector<int32_t> before, behind; // of every text

  void word(std::string_view word, std::vector<int32_t> &out) const;
  void piece(std::string_view piece, bool first, std::vector<int32_t> &out) const;
  Status unsupported(const std::string &what) const { return fail(TEGULA_UNSUPPORTED, path + ": " + what); }
  Status pattern(const std::string &text, bool keepsRest = true);
  Status readModel(const json &model);
  Status readNormalizer(const json &j);
  Status readPreTokenizer(const json &j);
  Status readDecoder(const json &j);
  Status readPostProcessor(const json &j);
  Status readAdded(const json &j);
};

/// Merges the pair of the lowest rank, of several the first one, until there is none.
void Tokenizer::Tables::word(std::string_view word, std::vector<int32_t> &out) const {
  struct Symbol {
    int32_t token;
    int previous, next; // -1: none
  };
  std::vector<Symbol> symbols;
  auto add = [&](int32_t token) { symbols.push_back({token, int(symbols.size()) - 1, int(symbols.size()) + 1}); };
  if (ofBytes) {
    std::string whole;
    for (unsigned char b : word) whole += characters[b];
    if (auto it = tokens.find(whole); ignoreMerges && it != tokens.end()) return out.push_back(it->second);
    for (unsigned char b : word)
      if (auto it = tokens.find(characters[b]); it != tokens.end()) add(it->second);
  } else {
    if (auto it = tokens.find(std::string(word)); ignoreMerges && it != tokens.end()) return out.push_back(it->second);
    bool fusable = false;
    for (size_t at = 0; at < word.size();) {
      size_t size = std::max<size_t>(codePointAt(word, at).bytes, 1);
      std::string one(word.substr(at, size));
      at += size;
      bool known = true;
      if (auto it = tokens.find(one); it != tokens.end()) add(it->second);
      else if (!byteTokens.empty()) std::ranges::for_each(one, [&](unsigned char b) { add(byteTokens[b]); });
      else known = false;
      if (!known && unknown >= 0 && !(fuseUnknown && fusable)) add(unknown);
      fusable = !known;
    }
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  struct Candidate {
    int32_t rank, result;
    int at;
    int32_t left, right; // as they were
    bool operator>(const Candidate &o) const { return std::pair(rank, at) > std::pair(o.rank, o.at); }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  auto consider = [&](int at) {
    if (at < 0 || symbols[size_t(at)].next < 0) return;
    int32_t left = symbols[size_t(at)].token, right = symbols[size_t(symbols[size_t(at)].next)].token;
    if (auto it = merges.find(pairKey(left, right)); it != merges.end()) queue.push({it->second.rank, it->second.result, at, left, right});
  };
  for (int i = 0; i + 1 < int(symbols.size()); ++i) consider(i);
  for (; !queue.empty();) {
    Candidate c = queue.top();
    queue.pop();
    Symbol &s = symbols[size_t(c.at)];
    if (s.token != c.left || s.next < 0 || symbols[size_t(s.next)].token != c.right) continue; // one of them has been merged since
    Symbol &gone = symbols[size_t(s.next)];
    s.token = c.result, gone.token = -1;
    s.next = gone.next;
    if (s.next >= 0) symbols[size_t(s.next)].previous = c.at;
    consider(s.previous);
    consider(c.at);
  }
  for (int i = 0; i >= 0; i = symbols[size_t(i)].next) out.push_back(symbols[size_t(i)].token);
}

/// A text without added tokens: normalized, and into words. `first`: it begins the whole text.
void Tokenizer::Tables::piece(std::string_view piece, bool first, std::vector<int32_t> &out) const {
  if (piece.empty()) return;
  std::string text(piece);
  for (const Normalizer &n : normalizers) {
    if (n.kind == Normalizer::Kind::Composed) text = composed(text);
    else if (n.kind == Normalizer::Kind::Prepend) text = n.to + text;
    else text = replaced(text, n.from, n.to);
  }
  if (prefixSpace && !text.starts_with(' ')) text = ' ' + text;
  if (!blank.empty()) {
    text = replaced(text, " ", blank);
    if (scheme != Scheme::Never && (first || scheme == Scheme::Always) && !text.starts_with(blank)) text = blank + text;
  }
  std::vector<std::string_view> words{text};
  for (const Pattern &p : patterns) {
    std::vector<std::string_view> pieces;
    std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> found(pcre2_match_data_create_from_pattern(p.code.get(), nullptr), pcre2_match_data_free);
    for (std::string_view w : words) {
      size_t at = 0;
      // Whether it is UTF-8 is looked at once.
      while (at < w.size() && pcre2_match(p.code.get(), reinterpret_cast<PCRE2_SPTR>(w.data()), w.size(), at, at ? PCRE2_NO_UTF_CHECK : 0, found.get(), nullptr) > 0) {
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(found.get());
        if (range[1] <= range[0]) break;
        if (range[0] > at && p.keepsRest) pieces.push_back(w.substr(at, range[0] - at));
        pieces.push_back(w.substr(range[0], range[1] - range[0]));
        at = range[1];
      }
      if (at < w.size() && (p.keepsRest || at == 0)) pieces.push_back(w.substr(at));
    }
    words = std::move(pieces);
  }
  for (std::string_view w : words) {
    size_t begin = 0;
    for (size_t at = 1; cutsAtBlanks && at < w.size(); ++at)
      if (w.compare(at, blank.size(), blank) == 0) {
        word(w.substr(begin, at - begin), out);
        begin = at;
      }
    word(w.substr(begin), out);
  }
}

Status Tokenizer::Tables::pattern(const std::string &text, bool keepsRest) {
  int error = 0;
  PCRE2_SIZE where = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.c_str()), text.size(), PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (!code) {
    PCRE2_UCHAR why[200];
    pcre2_get_error_message(error, why, sizeof why);
    return invalid(path + ": the pre-tokenizer's expression: " + reinterpret_cast<const char *>(why) + " at character " + std::to_string(where));
  }
  patterns.push_back({std::move(code), keepsRest});
  return {};
}

Status Tokenizer::Tables::readModel(const json &model) {
  std::string type = textOf(model, "type");
  if (!type.empty() && type != "BPE") return unsupported("the model is `" + type + "`; only byte-pair encoding (BPE) is supported");
  if (!model.contains("vocab") || !model["vocab"].is_object() || !model.contains("merges") || !model["merges"].is_array()) return unsupported("`vocab` or `merges` is missing; only byte-pair encoding (BPE) is supported");
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!textOf(model, key).empty()) return unsupported(std::string("`") + key + "` is not supported");
  if (auto it = model.find("dropout"); it != model.end() && it->is_number() && it->get<double>() > 0) return unsupported("`dropout` is not supported");
  for (auto &[token, number] : model["vocab"].items()) {
    if (!number.is_number_integer() || number.get<int64_t>() < 0 || number.get<int64_t>() > INT32_MAX) return invalid(path + ": the number of token `" + token + "` is " + number.dump());
    tokens[token] = number.get<int32_t>();
  }
  int32_t rank = 0;
  for (const json &m : model["merges"]) {
    std::string left, right;
    if (m.is_string()) {
      std::string pair = m.get<std::string>();
      size_t space = pair.find(' ');
      if (space != std::string::npos) left = pair.substr(0, space), right = pair.substr(space + 1);
    } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      left = m[0].get<std::string>(), right = m[1].get<std::string>();
    }
    auto a = tokens.find(left), b = tokens.find(right), c = tokens.find(left + right);
    if (a == tokens.end() || b == tokens.end() || c == tokens.end()) return invalid(path + ": merge " + std::to_string(rank) + " is not of two tokens that make a third: " + m.dump());
    merges.emplace(pairKey(a->second, b->second), Merge{rank, c->second});
    ++rank;
  }
  ignoreMerges = flagOf(model, "ignore_merges");
  fuseUnknown = flagOf(model, "fuse_unk");
  if (auto it = tokens.find(textOf(model, "unk_token")); it != tokens.end()) unknown = it->second;
  if (!flagOf(model, "byte_fallback")) return {};
  byteTokens.assign(256, -1);
  for (auto &[token, number] : tokens)
    if (int b = byteOf(token); b >= 0) byteTokens[size_t(b)] = number;
  if (std::ranges::count(byteTokens, -1)) return invalid(path + ": `byte_fallback`, but not every byte has a token");
  return {};
}

Status Tokenizer::Tables::readNormalizer(const json &j) {
  for (const json &part : partsOf(j, "normalizers")) {
    std::string type = textOf(part, "type"), from = part.is_object() && part.contains("pattern") ? textOf(part["pattern"], "String") : "";
    if (type == "NFC") normalizers.push_back({Normalizer::Kind::Composed, "", ""});
    else if (type == "Prepend") normalizers.push_back({Normalizer::Kind::Prepend, "", textOf(part, "prepend")});
    else if (type == "Replace" && !from.empty()) normalizers.push_back({Normalizer::Kind::Replace, from, textOf(part, "content")});
    else return unsupported("normalizer `" + type + "` is not supported; NFC, Prepend, Replace of a String and Sequences of them are");
  }
  return {};
}

Status Tokenizer::Tables::readPreTokenizer(const json &j) {
  for (const json &part : partsOf(j, "pretokenizers")) {
    std::string type = textOf(part, "type"), behavior = textOf(part, "behavior");
    const json pattern = part.is_object() ? part.value("pattern", json()) : json();
    Status s;
    if (type == "ByteLevel") {
      ofBytes = true;
      prefixSpace = flagOf(part, "add_prefix_space");
      if (prefixSpace && !patterns.empty()) return unsupported("`add_prefix_space` behind another pre-tokenizer is not supported");
      if (flagOf(part, "use_regex", true)) s = this->pattern(defaultPattern);
    } else if (type == "Metaspace") {
      if (!patterns.empty()) return unsupported("Metaspace behind another pre-tokenizer is not supported");
      blank = textOf(part, "replacement");
      std::string how = textOf(part, "prepend_scheme");
      if (how.empty()) how = flagOf(part, "add_prefix_space", true) ? "always" : "never";
      if (blank.empty() || (how != "never" && how != "first" && how != "always")) return unsupported("Metaspace with " + part.dump() + " is not supported");
      scheme = how == "never" ? Scheme::Never : how == "first" ? Scheme::First : Scheme::Always;
      cutsAtBlanks = flagOf(part, "split", true);
    } else if (type == "Digits") {
      s = this->pattern(flagOf(part, "individual_digits") ? "\\p{N}" : "\\p{N}+");
    } else if (type == "Split" && !textOf(pattern, "Regex").empty() && ((behavior == "Isolated" && !flagOf(part, "invert")) || (behavior == "Removed" && flagOf(part, "invert")))) {
      s = this->pattern(textOf(pattern, "Regex"), behavior == "Isolated");
    } else {
      std::string what = type == "Split" ? " with " + pattern.dump() + " and `" + behavior + "`" : "";
      return unsupported("pre-tokenizer `" + type + "`" + what + " is not supported; ByteLevel, Digits, Metaspace, Split by an isolated Regex and Sequences of them are");
    }
    if (!s) return s;
  }
  if (ofBytes && !blank.empty()) return unsupported("ByteLevel and Metaspace together are not supported");
  return {};
}

/// The bytes of tokens. Blanks that a decoder strips from the beginning of a text stay: answers continue one.
Status Tokenizer::Tables::readDecoder(const json &j) {
  std::vector<std::pair<std::string, std::string>> replacements;
  bool ofByteTokens = false;
  if (!blank.empty()) replacements.push_back({blank, " "});
  for (const json &part : partsOf(j, "decoders")) {
    std::string type = textOf(part, "type"), from = part.is_object() && part.contains("pattern") ? textOf(part["pattern"], "String") : "";
    if (type == "Replace" && !from.empty()) replacements.push_back({from, textOf(part, "content")});
    else if (type == "ByteFallback") ofByteTokens = true;
    else if (type == "Metaspace" && !textOf(part, "replacement").empty()) replacements.push_back({textOf(part, "replacement"), " "});
    else if (type != "ByteLevel" && type != "Fuse" && type != "Strip") return unsupported("decoder `" + type + "` is not supported");
    if ((type == "ByteLevel") != ofBytes && type != "Fuse" && type != "Strip") return unsupported("decoder `" + type + "` is not the one of the pre-tokenizer");
  }
  std::unordered_map<std::string, char> byte;
  for (unsigned b = 0; b < 256; ++b) byte[characters[b]] = char(b);
  for (auto &[token, number] : tokens) {
    std::string &to = bytes[number];
    if (!ofBytes) {
      int b = ofByteTokens ? byteOf(token) : -1;
      to = b >= 0 ? std::string(1, char(b)) : token;
      for (auto &[from, with] : replacements)
        if (b < 0) to = replaced(to, from, with);
      continue;
    }
    for (size_t i = 0; i < token.size();) {
      size_t length = (token[i] & 0xe0) == 0xc0 ? 2 : 1;
      auto it = byte.find(token.substr(i, length));
      if (it == byte.end()) break;
      to += it->second;
      i += length;
    }
    if (to.empty()) to = token;
  }
  return {};
}

/// What stands around a text: TemplateProcessing's `single`.
Status Tokenizer::Tables::readPostProcessor(const json &j) {
  for (const json &part : partsOf(j, "processors")) {
    std::string type = textOf(part, "type");
    if (type == "ByteLevel") continue; // offsets only
    if (type != "TemplateProcessing" || !part.contains("single") || !part["single"].is_array()) return unsupported("post-processor `" + type + "` is not supported; TemplateProcessing and ByteLevel are");
    bool there = false;
    for (const json &item : part["single"]) {
      if (item.is_object() && item.contains("Sequence")) {
        there = true;
        continue;
      }
      std::string name = item.is_object() && item.contains("SpecialToken") ? textOf(item["SpecialToken"], "id") : "";
      const json entry = part.value("special_tokens", json::object()).value(name, json());
      const json ids = entry.is_object() ? entry.value("ids", json()) : json();
      if (!ids.is_array() || !std::ranges::all_of(ids, [](const json &id) { return id.is_number_integer(); })) return invalid(path + ": the post-processor's " + item.dump() + " is no token");
      for (const json &id : ids) (there ? behind : before).push_back(id.get<int32_t>());
    }
  }
  return {};
}

Status Tokenizer::Tables::readAdded(const json &j) {
  if (!j.is_array()) return {};
  for (const json &a : j) {
    std::string text = textOf(a, "content");
    if (text.empty() || !a.contains("id") || !a["id"].is_number_integer()) return invalid(path + ": an added token without `content` or `id`: " + a.dump());
    if (flagOf(a, "single_word")) return unsupported("`single_word` of the added token `" + text + "` is not supported");
    int32_t token = a["id"].get<int32_t>();
    added[static_cast<unsigned char>(text[0])].push_back({text, token, flagOf(a, "lstrip"), flagOf(a, "rstrip")});
    tokens[text] = token;
    bytes[token] = text;
  }
  for (std::vector<Added> &list : added)
    std::ranges::sort(list, [](const Added &a, const Added &b) { return std::pair(-int64_t(a.text.size()), a.token) < std::pair(-int64_t(b.text.size()), b.token); });
  return {};
}

Result<Tokenizer> Tokenizer::open(const std::string &path) {
  Result<std::string> text = readFile(path);
  if (!text) return text.status();
  if (text->starts_with("version https://git-lfs")) return invalid(path + ": a pointer of Git LFS in place of the file; `git lfs pull` brings it");
  json j = json::parse(*text, nullptr, false);
  if (!j.is_object() || !j.contains("model") || !j["model"].is_object()) return invalid(path + ": not a tokenizer.json: there is no `model`");
  auto t = std::make_shared<Tables>();
  t->path = path;
  Status s = t->readModel(j["model"]);
  if (s) s = t->readNormalizer(j.value("normalizer", json()));
  if (s) s = t->readPreTokenizer(j.value("pre_tokenizer", json()));
  if (s) s = t->readDecoder(j.value("decoder", json()));
  if (s) s = t->readPostProcessor(j.value("post_processor", json()));
  if (s) s = t->readAdded(j.value("added_tokens", json()));
  if (!s) return s;
  Tokenizer tokenizer;
  tokenizer.tables_ = std::move(t);
  return tokenizer;
}

std::vector<int32_t> Tokenizer::encode(const std::string &text) const {
  const Tables &t = *tables_;
  auto isBlank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::vector<int32_t> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const std::vector<Tables::Added> &list = t.added[static_cast<unsigned char>(text[at])];
    auto hit = std::ranges::find_if(list, [&](const Tables::Added &a) { return text.compare(at, a.text.size(), a.text) == 0; });
    if (hit == list.end()) {
      ++at;
      continue;
    }
    size_t end = at;
    while (hit->left && end > begin && isBlank(text[end - 1])) --end;
    t.piece(std::string_view(text).substr(begin, end - begin), begin == 0, out);
    out.push_back(hit->token);
    at += hit->text.size();
    while (hit->right && at < text.size() && isBlank(text[at])) ++at;
    begin = at;
  }
  t.piece(std::string_view(text).substr(begin), begin == 0, out);
  if (!std::ranges::equal(t.before, std::span(out).first(std::min(out.size(), t.before.size())))) out.insert(out.begin(), t.before.begin(), t.before.end());
  if (!std::ranges::equal(t.behind, std::span(out).last(std::min(out.size(), t.behind.size())))) out.insert(out.end(), t.behind.begin(), t.behind.end());
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

int64_t Tokenizer::size() const {
  int64_t largest = -1;
  for (auto &[number, bytes] : tables_->bytes) largest = std::max<int64_t>(largest, number);
  return largest + 1;
}

} // namespace llm
