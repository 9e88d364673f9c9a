// The reader of textual IR; the grammar is in Text.h. Recursive descent straight on the characters.
#include "ir/Text.h"
#include "ir/Diagnostics.h"
#include "ir/Verifier.h"
#include "layout/Parse.h"
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_map>

namespace tegula::ir {

namespace {

constexpr unsigned maxDepth = 200;

bool isWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

class Reader {
public:
  Reader(const SourceFile &file, Module &m, DiagEngine &diag)
      : file_(file), text_(file.text()), module_(m), diag_(diag) {}
  bool module();

private:
  // Characters. skip() passes white space and comments and notes a line break.
  void skip();
  bool at(char c) { skip(); return pos_ < text_.size() && text_[pos_] == c; }
  bool accept(char c);
  bool expect(char c);
  std::string_view word();
  std::string_view peekWord();
  bool acceptWord(std::string_view w);
  Loc locFrom(size_t begin) const {
    return {&file_, static_cast<uint32_t>(begin), static_cast<uint32_t>(std::max(pos_, begin))};
  }
  Loc here() const;
  std::string found();
  bool fail(std::string_view expected);
  /// What was found at `begin` has been read already.
  bool failAt(size_t begin, std::string_view expected, std::string_view what);

  bool layout();
  bool function();
  bool functionArgument(Function &f);
  bool argumentFacts(ArgInfo &info);
  bool region(Region &r, OpKind terminator, unsigned depth);
  bool op(Block &b, unsigned depth);
  bool blockArguments(Block &b);
  bool valueName(std::string &name);
  bool operands(Op &op);
  bool results(std::vector<std::string> &names);
  bool attributes(std::vector<Attr> &attrs, OpKind kind);
  bool attrValue(AttrValue &v, OpKind kind);
  bool numberValue(AttrValue &v);
  bool stringValue(AttrValue &v);
  bool listValue(AttrValue &v);
  bool startsAttributes();
  bool types(std::vector<Type> &list);
  bool type(Type &t);
  bool elem(std::string_view name, Elem &e);
  bool layoutName(Type &t);
  bool define(const std::string &name, Value *v, Loc loc);
  bool defaultTypes(Op &op, size_t wanted, std::vector<Type> &list);
  void finishConst(Op &op);

  const SourceFile &file_;
  std::string_view text_;
  Module &module_;
  DiagEngine &diag_;
  size_t pos_ = 0;
  bool newline_ = false; // seen by the last skip()
  std::unordered_map<std::string, uint16_t> layouts_; // Type::layout by name
  std::unordered_map<std::string, Value *> values_;
  std::vector<std::vector<std::string>> scopes_;
};

void Reader::skip() {
  newline_ = false;
  for (; pos_ < text_.size(); ++pos_) {
    char c = text_[pos_];
    bool comment = c == '#' || (c == '/' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '/');
    if (comment)
      while (pos_ < text_.size() && text_[pos_] != '\n')
        ++pos_;
    else if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
      return;
    if (pos_ >= text_.size())
      return;
    newline_ |= text_[pos_] == '\n';
  }
}

bool Reader::accept(char c) {
  if (!at(c))
    return false;
  ++pos_;
  return true;
}

Loc Reader::here() const {
  uint32_t p = static_cast<uint32_t>(pos_);
  return {&file_, p, p < text_.size() ? p + 1 : p};
}

std::string Reader::found() {
  skip();
  if (pos_ >= text_.size())
    return "the end of the text";
  std::string_view w = peekWord();
  return "`" + std::string(w.empty() ? text_.substr(pos_, 1) : w) + "`";
}

bool Reader::fail(std::string_view expected) {
  std::string what = found();
  diag_.report(diag::expectedText, here(), expected, what);
  return false;
}

bool Reader::failAt(size_t begin, std::string_view expected, std::string_view what) {
  diag_.report(diag::expectedText, locFrom(begin), expected, what);
  return false;
}

bool Reader::expect(char c) { return accept(c) || fail("`" + std::string(1, c) + "`"); }

std::string_view Reader::peekWord() {
  skip();
  size_t end = pos_;
  while (end < text_.size() && isWordChar(text_[end]))
    ++end;
  return text_.substr(pos_, end - pos_);
}

std::string_view Reader::word() {
  std::string_view w = peekWord();
  pos_ += w.size();
  return w;
}

bool Reader::acceptWord(std::string_view w) {
  if (peekWord() != w)
    return false;
  pos_ += w.size();
  return true;
}

bool Reader::module() {
  while (acceptWord("layout"))
    if (!layout())
      return false;
  for (skip(); pos_ < text_.size(); skip())
    if (!function())
      return false;
  return true;
}

bool Reader::layout() {
  skip();
  size_t begin = pos_;
  std::string name(word());
  if (name.empty())
    return fail("the name of a layout");
  Loc where = locFrom(begin);
  if (!expect('='))
    return false;
  size_t line = pos_, at = 0;
  pos_ = std::min(text_.find('\n', pos_), text_.size());
  std::string why;
  std::optional<layout::LinearLayout> l = layout::parse(text_.substr(line, pos_ - line), why, at);
  if (!l) {
    pos_ = line + at;
    return fail(why);
  }
  if (layouts_.emplace(name, module_.internLayout(*l)).second)
    return true;
  diag_.report(diag::redefinedLayout, where, name);
  return false;
}

bool Reader::define(const std::string &name, Value *v, Loc loc) {
  if (!values_.emplace(name, v).second) {
    diag_.report(diag::redefinedValue, loc, name);
    return false;
  }
  scopes_.back().push_back(name);
  if (name.find_first_not_of("0123456789") != std::string::npos)
    v->name = name;
  return true;
}

bool Reader::valueName(std::string &name) {
  if (!expect('%'))
    return false;
  size_t end = pos_;
  while (end < text_.size() && isWordChar(text_[end]))
    ++end;
  name = text_.substr(pos_, end - pos_);
  pos_ = end;
  return !name.empty() || fail("the name of a value");
}

bool Reader::function() {
  bool isKernel = acceptWord("kernel");
  if (!isKernel && !acceptWord("func"))
    return fail("`kernel` or `func`");
  bool noinline_ = acceptWord("noinline"), isOrdered = acceptWord("ordered");
  size_t begin = pos_;
  if (!expect('@'))
    return false;
  std::string name(word());
  if (name.empty())
    return fail("the name of a function");
  if (module_.find(name)) {
    diag_.report(diag::redefinedFunction, locFrom(begin), name);
    return false;
  }
  Function *f = module_.createFunction(name, {}, {}, locFrom(begin));
  f->isKernel = isKernel;
  f->noinline_ = noinline_;
  f->isOrdered = isOrdered;
  values_.clear();
  scopes_.assign(1, {});
  if (!expect('('))
    return false;
  if (!at(')'))
    do {
      if (!functionArgument(*f))
        return false;
    } while (accept(','));
  if (!expect(')'))
    return false;
  if (accept('-') && (!expect('>') || !types(f->resultTypes)))
    return false;
  return region(*f->body, OpKind::Return, 0);
}

bool Reader::functionArgument(Function &f) {
  skip();
  ArgInfo info;
  size_t begin = pos_;
  std::string name;
  Type t;
  if (!valueName(name))
    return false;
  info.loc = locFrom(begin);
  if (!expect(':') || !type(t))
    return false;
  if (at('{') && !argumentFacts(info))
    return false;
  Value *v = module_.addArg(f.block(), t);
  if (!define(name, v, info.loc))
    return false;
  info.name = v->name;
  f.argInfo.push_back(std::move(info));
  return true;
}

/// What is known of the argument: `{divisibility = 16, const = 1, signed = 0, same_as = 2, overlap = 1, access = 3}`.
bool Reader::argumentFacts(ArgInfo &info) {
  if (!expect('{'))
    return false;
  do {
    std::string_view key = word();
    size_t begin = pos_ - key.size();
    if (key != "divisibility" && key != "const" && key != "signed" && key != "same_as" && key != "overlap" &&
        key != "access")
      return failAt(begin, "`divisibility`, `const`, `signed`, `same_as`, `overlap` or `access`",
                    key.empty() ? found() : "`" + std::string(key) + "`");
    AttrValue v;
    if (!expect('=') || !attrValue(v, OpKind::Poison))
      return false;
    const int64_t *i = std::get_if<int64_t>(&v);
    if (!i)
      return failAt(begin, "an integer as the value of `" + std::string(key) + "`", "another value");
    if (key == "divisibility")
      info.divisibility = *i;
    else if (key == "same_as" || key == "overlap" || key == "access")
      (key == "access"    ? info.access
       : key == "overlap" ? info.overlap
                          : info.sameAs) = static_cast<int32_t>(std::clamp<int64_t>(*i, INT32_MIN, INT32_MAX));
    else
      (key == "const" ? info.isConst : info.isSigned) = *i != 0;
  } while (accept(','));
  return expect('}');
}

bool Reader::blockArguments(Block &b) {
  if (!accept('('))
    return true;
  if (accept(')'))
    return true;
  do {
    skip();
    size_t begin = pos_;
    std::string name;
    Type t;
    if (!valueName(name))
      return false;
    Loc loc = locFrom(begin);
    if (!expect(':') || !type(t) || !define(name, module_.addArg(&b, t), loc))
      return false;
  } while (accept(','));
  return expect(')');
}

bool Reader::region(Region &r, OpKind terminator, unsigned depth) {
  if (depth > maxDepth) {
    diag_.report(diag::nestedTooDeep, here(), maxDepth);
    return false;
  }
  scopes_.emplace_back();
  if (r.op && !blockArguments(*r.block))
    return false;
  if (!expect('{'))
    return false;
  while (!at('}')) {
    if (pos_ >= text_.size())
      return fail("`}`");
    if (!op(*r.block, depth))
      return false;
  }
  ++pos_;
  Op *last = r.block->terminator();
  if (!last || !last->has(traits::Terminator)) {
    Op *t = module_.createOp(terminator, here(), {}, {});
    t->parent = r.block;
    r.block->ops.push_back(t);
  }
  for (const std::string &n : scopes_.back())
    values_.erase(n);
  scopes_.pop_back();
  return true;
}

bool Reader::results(std::vector<std::string> &names) {
  if (!at('%'))
    return true;
  do {
    if (!valueName(names.emplace_back()))
      return false;
  } while (accept(','));
  return expect('=');
}

bool Reader::op(Block &b, unsigned depth) {
  skip();
  size_t begin = pos_;
  std::vector<std::string> names;
  if (!results(names))
    return false;
  std::string_view opName = word();
  if (opName.empty())
    return fail("an operation");
  const OpKind *kind = findOp(opName);
  if (!kind) {
    diag_.report(diag::unknownOperation, locFrom(pos_ - opName.size()), opName);
    return false;
  }
  Op *op = module_.createOp(*kind, locFrom(begin), {}, {});
  op->parent = &b;
  for (Region *r : op->regions)
    r->function = b.parent->function;
  std::vector<Type> list;
  if (!operands(*op) || (startsAttributes() && !attributes(op->attrs, *kind)))
    return false;
  if (accept(':') ? !types(list) : !defaultTypes(*op, names.size(), list))
    return false;
  op->loc = locFrom(begin);
  // Looking for `:` has passed white space.
  while (op->loc.end > op->loc.begin && (text_[op->loc.end - 1] == ' ' || text_[op->loc.end - 1] == '\n' ||
                                         text_[op->loc.end - 1] == '\r' || text_[op->loc.end - 1] == '\t'))
    --op->loc.end;
  if (list.size() != names.size()) {
    diag_.report(diag::resultCount, op->loc, opName, static_cast<uint64_t>(names.size()),
                 static_cast<uint64_t>(list.size()));
    return false;
  }
  for (const Type &t : list)
    module_.addResult(op, t);
  finishConst(*op);
  b.ops.push_back(op);
  bool isVariadic = info(*kind).regions < 0;
  for (size_t i = 0; isVariadic ? i == 0 || acceptWord("and") : i < op->regions.size(); ++i) {
    if (isVariadic)
      module_.addRegion(op)->function = b.parent->function;
    else if (i)
      acceptWord(*kind == OpKind::If ? "else" : "do");
    if (*kind == OpKind::If && i == 1 && !at('{')) { // no else
      Op *y = module_.createOp(OpKind::Yield, op->loc, {}, {});
      y->parent = op->region(1);
      op->region(1)->ops.push_back(y);
      continue;
    }
    if (!region(*op->regions[i], OpKind::Yield, depth + 1))
      return false;
  }
  for (size_t i = 0; i < names.size(); ++i)
    if (!define(names[i], op->results[i], op->loc))
      return false;
  return true;
}

bool Reader::operands(Op &op) {
  if (!at('%') || newline_)
    return true;
  do {
    skip();
    size_t begin = pos_;
    std::string name;
    if (!valueName(name))
      return false;
    auto it = values_.find(name);
    if (it == values_.end()) {
      diag_.report(diag::unknownValue, locFrom(begin), name);
      return false;
    }
    op.operands.push_back(it->second);
  } while (accept(','));
  return true;
}

bool Reader::defaultTypes(Op &op, size_t wanted, std::vector<Type> &list) {
  if (wanted == 1 && op.has(traits::Elementwise) && !op.operands.empty() && info(op.kind).operands > 0) {
    const Type &t = op.operands[op.kind == OpKind::Select && op.operands.size() > 1 ? 1 : 0]->type;
    list.push_back(op.kind == OpKind::CmpI || op.kind == OpKind::CmpF ? t.withElem(Elem::I1) : t);
    return true;
  }
  if (wanted == 0)
    return true;
  return fail("`:` and the types of the results");
}

/// Integer literals are welcome for floats; integers are kept as constants are stored.
void Reader::finishConst(Op &op) {
  if (op.kind != OpKind::Const || op.results.size() != 1)
    return;
  const Type &t = op.results[0]->type;
  for (Attr &a : op.attrs)
    if (int64_t *i = std::get_if<int64_t>(&a.value); i && a.key == attr::value && t.isFloatLike())
      a.value = static_cast<double>(*i);
}

/// `{` starts attributes if `}` or `key =` follows, else a region.
bool Reader::startsAttributes() {
  if (!at('{'))
    return false;
  size_t saved = pos_++;
  bool yes = !peekWord().empty();
  if (yes) {
    word();
    yes = at('=');
  }
  pos_ = saved;
  return yes;
}

bool Reader::attributes(std::vector<Attr> &attrs, OpKind kind) {
  if (!expect('{'))
    return false;
  do {
    std::string_view name = word();
    if (name.empty())
      return fail("the name of an attribute");
    std::optional<AttrKey> key = AttrKey::find(name);
    if (!key) {
      diag_.report(diag::unknownAttribute, locFrom(pos_ - name.size()), name);
      return false;
    }
    AttrValue value;
    if (!expect('=') || !attrValue(value, kind))
      return false;
    attrs.emplace_back(*key, std::move(value));
  } while (accept(','));
  return expect('}');
}

bool Reader::attrValue(AttrValue &v, OpKind kind) {
  if (at('"'))
    return stringValue(v);
  if (at('['))
    return listValue(v);
  char c = pos_ < text_.size() ? text_[pos_] : 0;
  std::string_view w = peekWord();
  if (c == '-' || (c >= '0' && c <= '9') || w == "inf" || w == "nan")
    return numberValue(v);
  if (kind != OpKind::CmpI && kind != OpKind::CmpF)
    return fail("a value");
  int first = kind == OpKind::CmpI ? 0 : static_cast<int>(CmpPred::Oeq);
  int last = kind == OpKind::CmpI ? static_cast<int>(CmpPred::Uge) : static_cast<int>(CmpPred::Uno);
  for (int i = first; i <= last; ++i)
    if (w == name(static_cast<CmpPred>(i))) {
      word();
      v = static_cast<int64_t>(i);
      return true;
    }
  diag_.report(diag::badPredicate, here(), w, info(kind).name);
  return false;
}

bool Reader::numberValue(AttrValue &v) {
  skip();
  size_t begin = pos_;
  if (text_[pos_] == '-')
    ++pos_;
  std::string_view w = word();
  // A signed exponent is the one place where a number goes on after a word.
  if (!w.empty() && (w.back() == 'e' || w.back() == 'E') && pos_ < text_.size() &&
      (text_[pos_] == '-' || text_[pos_] == '+')) {
    ++pos_;
    word();
  }
  if (w == "nan" && accept('(')) {
    size_t digits = pos_;
    std::string_view hex = word();
    uint64_t bits = 0;
    if (hex.substr(0, 2) != "0x" ||
        std::from_chars(hex.data() + 2, hex.data() + hex.size(), bits, 16).ec != std::errc())
      return failAt(digits, "the bits of a NaN, as 0x7ff8000000000001", "`" + std::string(hex) + "`");
    v = std::bit_cast<double>(bits);
    return expect(')');
  }
  std::string_view all = text_.substr(begin, pos_ - begin);
  const char *end = all.data() + all.size();
  int64_t i = 0;
  if (auto r = std::from_chars(all.data(), end, i); r.ec == std::errc() && r.ptr == end) {
    v = i;
    return true;
  }
  double d = 0;
  if (w == "nan" && all == w) {
    v = std::bit_cast<double>(uint64_t(0x7FF8000000000000));
    return true;
  }
  if (auto r = std::from_chars(all.data(), end, d); r.ec == std::errc() && r.ptr == end) {
    v = d;
    return true;
  }
  diag_.report(diag::notANumber, locFrom(begin), all);
  return false;
}

bool Reader::stringValue(AttrValue &v) {
  std::string s;
  auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (++pos_; pos_ < text_.size() && text_[pos_] != '"'; ++pos_) {
    char c = text_[pos_];
    if (c == '\n')
      return fail("`\"`");
    if (c == '\\' && pos_ + 1 < text_.size()) {
      c = text_[++pos_];
      if (c == 'x') {
        int hi = pos_ + 2 < text_.size() ? hex(text_[pos_ + 1]) : -1, lo = hi >= 0 ? hex(text_[pos_ + 2]) : -1;
        if (lo < 0)
          return fail("two digits of a byte");
        c = static_cast<char>(hi * 16 + lo);
        pos_ += 2;
      }
    }
    s += c;
  }
  v = std::move(s);
  return expect('"');
}

bool Reader::listValue(AttrValue &v) {
  std::vector<int64_t> list;
  ++pos_;
  if (!at(']'))
    do {
      AttrValue item;
      skip();
      if (pos_ >= text_.size())
        return fail("an integer");
      size_t begin = pos_;
      if (!numberValue(item))
        return false;
      const int64_t *i = std::get_if<int64_t>(&item);
      if (!i)
        return failAt(begin, "an integer", "`" + std::string(text_.substr(begin, pos_ - begin)) + "`");
      list.push_back(*i);
    } while (accept(','));
  v = std::move(list);
  return expect(']');
}

bool Reader::types(std::vector<Type> &list) {
  do {
    if (!type(list.emplace_back()))
      return false;
  } while (accept(','));
  return true;
}

bool Reader::elem(std::string_view text, Elem &e) {
  for (int i = 0; i <= static_cast<int>(Elem::F64); ++i)
    if (text == name(static_cast<Elem>(i))) {
      e = static_cast<Elem>(i);
      return true;
    }
  return false;
}

bool Reader::type(Type &t) {
  skip();
  size_t begin = pos_;
  auto bad = [&] {
    while (pos_ < text_.size() && (isWordChar(text_[pos_]) || text_[pos_] == '<' || text_[pos_] == '>'))
      ++pos_;
    Loc loc = locFrom(begin);
    diag_.report(diag::badType, loc, loc.text());
    return false;
  };
  t = Type();
  t.isShared = acceptWord("shared");
  bool isTensor = (t.isShared || acceptWord("tensor")) && accept('<');
  while (isTensor) { // extents, each with its x
    size_t digits = pos_;
    int64_t extent = 0;
    auto r = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), extent);
    if (r.ec != std::errc())
      break;
    pos_ = static_cast<size_t>(r.ptr - text_.data());
    bool ok = pos_ < text_.size() && text_[pos_] == 'x' && pos_ > digits && extent >= 1 && extent <= INT32_MAX &&
              t.shape.rank() < Shape::maxRank;
    if (!ok)
      return bad();
    ++pos_;
    t.shape.push(extent);
  }
  if (isTensor && t.shape.rank() == 0)
    return bad();
  if (acceptWord("ptr")) {
    t.isPtr = true;
    if (!accept('<') || !elem(word(), t.elem) || !accept('>'))
      return bad();
  } else if (!elem(word(), t.elem) || t.elem == Elem::Void) {
    return bad();
  }
  if (isTensor && accept(',') && !layoutName(t))
    return false;
  return (isTensor ? accept('>') : !t.isShared) || bad();
}

bool Reader::layoutName(Type &t) {
  skip();
  size_t begin = pos_;
  std::string name(word());
  auto known = layouts_.find(name);
  if (known == layouts_.end()) {
    diag_.report(diag::unknownLayout, locFrom(begin), name);
    return false;
  }
  t.layout = known->second;
  return true;
}

} // namespace

std::unique_ptr<Module> parse(std::shared_ptr<const SourceFile> file, DiagEngine &diag) {
  auto m = std::make_unique<Module>();
  m->sources.push_back(file);
  if (!Reader(*file, *m, diag).module())
    return nullptr;
  std::string why;
  Loc where;
  if (verify(*m, &why, &where))
    return m;
  diag.report(diag::invalidIr, where ? where : Loc{file.get(), 0, 0}, why);
  return nullptr;
}

} // namespace tegula::ir
