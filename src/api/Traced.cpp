// Origins and names of traced kernels.
#include "api/Traced.h"
#include "support/Npy.h"
#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

namespace tegula::api {
namespace {

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool isOneOf(char c, std::string_view set) { return set.find(c) != set.npos; }

/// The files of the program that wrote a text, each read once. A file that is missing, or differs from the one that the
/// program was built from, still has lines and columns.
class OriginFiles {
public:
  explicit OriginFiles(std::span<const TegulaOrigin> all) : all_(all) {}

  Origin origin(const TegulaOrigin &o) {
    // Nearly all origins are in one file, whose name is one pointer.
    if (o.file != lastName_) {
      std::shared_ptr<const SourceFile> &file = files_[o.file];
      if (!file) file = load(o.file);
      lastName_ = o.file, last_ = file;
    }
    const std::shared_ptr<const SourceFile> &known = last_;
    uint32_t at = known->offsetAt(o.line, std::max<uint32_t>(o.column, 1)).value_or(0);
    std::string_view text = known->text();
    // GCC locates a call at its parenthesis, Clang at its name.
    if (at < text.size() && text[at] == '(') {
      uint32_t name = at;
      if (name > 0 && text[name - 1] == '>')
        while (name > 0 && text[name] != '<' && text[name] != '\n') --name;
      while (name > 0 && (isWord(text[name - 1]) || text[name - 1] == ':')) --name;
      at = name;
    }
    uint32_t end = at;
    while (end < text.size() && (isWord(text[end]) || text[end] == ':')) ++end;
    if (end == at && end < text.size() && text[end] != '\n') ++end;
    return {o.begin, o.end, known, at, end};
  }

private:
  std::shared_ptr<const SourceFile> load(const std::string &name) {
    std::string text, error;
    uint32_t last = 0;
    const char *same = nullptr; // a name that is this one, by its pointer
    auto isOfIt = [&](const TegulaOrigin &o) {
      if (o.file == same) return true;
      if (o.file != name) return false;
      return same = o.file, true;
    };
    for (const TegulaOrigin &o : all_)
      if (isOfIt(o)) last = std::max(last, o.line);
    if (readFile(name, text, error, sourceLimit)) {
      auto file = std::make_shared<const SourceFile>(name, std::move(text));
      if (file->offsetAt(last, 1)) return file;
    }
    std::vector<uint32_t> columns(last);
    for (const TegulaOrigin &o : all_)
      if (isOfIt(o)) columns[o.line - 1] = std::max(columns[o.line - 1], o.column);
    text.clear();
    for (uint32_t c : columns) text.append(c, ' ') += '\n';
    return std::make_shared<const SourceFile>(name, std::move(text));
  }

  std::span<const TegulaOrigin> all_;
  std::map<std::string, std::shared_ptr<const SourceFile>> files_;
  const char *lastName_ = nullptr;
  std::shared_ptr<const SourceFile> last_;
};

/// The name that ends at `end`, possibly followed by spaces; empty if it is not a name of the language.
std::string_view wordBefore(std::string_view text, size_t end) {
  while (end > 0 && isSpace(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && isWord(text[begin - 1])) --begin;
  bool isPart = begin > 0 && static_cast<unsigned char>(text[begin - 1]) >= 0x80; // of a name with other letters
  return begin == end || isPart || std::isdigit(static_cast<unsigned char>(text[begin]))
             ? std::string_view()
             : text.substr(begin, end - begin);
}

/// Is the brace at `at` assigned to a variable: `s = {a, b}`?
bool isAssigned(std::string_view text, size_t at) {
  while (at > 0 && isSpace(text[at - 1])) --at;
  return at > 0 && text[at - 1] == '=';
}

/// The variable declared with the brace at `at` as its initializer: `State s{a, b}`. Empty for any other brace.
std::string_view declaredName(std::string_view text, size_t at) {
  auto isStatement = [](std::string_view word) {
    constexpr std::string_view words[] = {"return", "co_return", "else", "do", "try", "case", "const",
                                          "noexcept", "mutable", "final", "struct", "class", "union", "namespace"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
  };
  std::string_view name = wordBefore(text, at);
  if (name.empty() || isStatement(name)) return {};
  size_t type = static_cast<size_t>(name.data() - text.data());
  if (type == 0 || !isSpace(text[type - 1])) return {};
  while (type > 0 && isSpace(text[type - 1])) --type;
  std::string_view before = wordBefore(text, type);
  bool isTemplate = type > 1 && text[type - 1] == '>' && text[type - 2] != '-';
  return isTemplate || (!before.empty() && !isStatement(before)) ? name : std::string_view();
}

/// The variable assigned from the expression around `at`: the word before its `=`. Empty if there is none, or if the
/// expression is an argument of a call.
std::string_view assignedName(std::string_view text, size_t at) {
  unsigned depth = 0, braces = 0; // of the arguments of a call in front, and of the braces in them
  for (size_t i = at; i-- > 0;) {
    char c = text[i];
    if (c == '}' && depth > 0) ++braces;
    else if (c == '{' && braces > 0) --braces;
    else if (braces > 0) continue;
    else if (c == ')') ++depth;
    else if (c == '(' && depth > 0) --depth;
    else if (c == '(' && i > 0 && (isWord(text[i - 1]) || isOneOf(text[i - 1], ">]"))) return {};
    else if (c == '{' && depth == 0 && !isAssigned(text, i)) return declaredName(text, i);
    else if (c == '{' && depth == 0) continue;
    else if (isOneOf(c, ";{}")) return {};
    else if (c == '=' && depth == 0 && i > 0 && !isOneOf(text[i - 1], "=!<>") && text[i + 1] != '=')
      return wordBefore(text, isOneOf(text[i - 1], "+-*/%&|^") ? i - 1 : i);
  }
  return {};
}

/// The parameter of the lambda in the call at `at`: the body of a loop takes its index.
std::string_view lambdaParameter(std::string_view text, size_t at) {
  size_t body = text.find("](", at), end = body == text.npos ? body : text.find(')', body);
  return end == text.npos || text.substr(at, body - at).find(';') != text.npos ? std::string_view()
                                                                               : wordBefore(text, end);
}

struct Word {
  uint32_t at;
  std::string_view text;
};

/// `_v1` or `_f1`, any number, any further underscores.
bool looksMadeUp(std::string_view word) {
  size_t i = word.find_first_not_of('_');
  return i != 0 && i != word.npos && (word[i] == 'v' || word[i] == 'f') && i + 1 < word.size() &&
         word.find_first_not_of("0123456789", i + 1) == word.npos;
}

std::vector<Word> wordsOf(std::string_view text) {
  std::vector<Word> words;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      ++i;
    } else if (isWord(text[i])) {
      size_t begin = i;
      while (i < text.size() && isWord(text[i])) ++i;
      words.push_back({static_cast<uint32_t>(begin), text.substr(begin, i - begin)});
    } else {
      ++i;
    }
  }
  return words;
}

// Keywords of the language that are ordinary names in C++.
constexpr std::string_view reserved[] = {"False", "None", "True", "as", "assert", "async", "await", "def",
                                         "del", "elif", "except", "finally", "from", "global", "import", "in",
                                         "is", "lambda", "nonlocal", "pass", "raise", "with", "yield"};

} // namespace

std::string problemOf(std::span<const TegulaOrigin> origins, size_t length) {
  constexpr uint32_t mostLines = 1 << 24, mostColumns = 1 << 16;
  for (size_t i = 0; i < origins.size(); ++i) {
    const TegulaOrigin &o = origins[i];
    if (!o.file || o.begin > o.end || o.end > length || o.line == 0 || o.line > mostLines || o.column > mostColumns)
      return "origin " + std::to_string(i) + " is no range of the text, or no place";
  }
  return {};
}

std::shared_ptr<const SourceFile> tracedFile(std::string name, std::string_view text,
                                             std::span<const TegulaOrigin> origins) {
  OriginFiles files(origins);
  std::vector<Origin> list;
  for (const TegulaOrigin &o : origins) list.push_back(files.origin(o));
  // Of two with the same range, the later one is the inner one.
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(list[a].begin, list[b].end, a) < std::tuple(list[b].begin, list[a].end, b);
  });
  std::vector<Origin> sorted;
  for (size_t i : order) sorted.push_back(std::move(list[i]));
  list = std::move(sorted);
  const SourceFile written(name, std::string(text), list);

  std::vector<Word> words = wordsOf(text);
  enum Kind { Kept, Value, Index, Function };
  // By the first use of a word: parameters keep their names, and so does the kernel.
  std::map<std::string_view, std::pair<Kind, uint32_t>> kinds;
  for (const Word &w : words) {
    std::string_view before = text.substr(0, w.at), after = text.substr(w.at + w.text.size());
    Kind kind = !looksMadeUp(w.text) || w.text == name ? Kept
                : before.ends_with("def ")             ? Function
                : before.ends_with("for ")             ? Index
                : after.starts_with(" = ")             ? Value
                                                       : Kept;
    kinds.try_emplace(w.text, kind, w.at);
  }
  std::set<std::string, std::less<>> taken(std::begin(reserved), std::end(reserved));
  for (auto &[word, first] : kinds)
    if (first.first == Kept) taken.emplace(word);
  auto nameFor = [&](Kind kind, uint32_t first) {
    Loc at = Loc{&written, first, first + 1}.origin();
    std::string line = std::to_string(at.file->lineCol(at.begin).line), own;
    if (at.file == &written) own = "value"; // not in the program's source
    else if (kind == Value) own = assignedName(at.file->text(), at.begin);
    else if (kind == Index) own = lambdaParameter(at.file->text(), at.begin);
    if (own.empty()) own = (kind == Function ? "lambda_at_line_" : "at_line_") + line;
    std::string apart = own;
    for (unsigned n = 2; !taken.insert(apart).second; ++n) apart = own + "_" + std::to_string(n);
    return apart;
  };
  std::map<std::string_view, std::string> names;
  struct Edit {
    uint32_t end; // of the old name
    int64_t shift; // of what follows
  };
  std::vector<Edit> edits;
  std::string out;
  size_t done = 0;
  for (const Word &w : words) {
    auto [kind, first] = kinds.at(w.text);
    if (kind == Kept) continue;
    auto [known, isNew] = names.try_emplace(w.text);
    if (isNew) known->second = nameFor(kind, first);
    out.append(text.substr(done, w.at - done)) += known->second;
    done = w.at + w.text.size();
    edits.push_back({static_cast<uint32_t>(done), static_cast<int64_t>(out.size()) - static_cast<int64_t>(done)});
  }
  out += text.substr(done);
  auto moved = [&](uint32_t offset) {
    auto next =
        std::upper_bound(edits.begin(), edits.end(), offset, [](uint32_t o, const Edit &e) { return o < e.end; });
    return static_cast<uint32_t>(offset + (next == edits.begin() ? 0 : std::prev(next)->shift));
  };
  for (Origin &o : list) o.begin = moved(o.begin), o.end = moved(o.end);
  return std::make_shared<const SourceFile>(std::move(name), std::move(out), std::move(list));
}

} // namespace tegula::api
