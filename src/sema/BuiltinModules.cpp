// The modules of the language itself: triton, triton.language (tl) and below, tegula, math.
//
// A module is a prefix of lang's name table. A name is looked up in the table of builtins, then among constants,
// submodules, and the functions of src/lib. A library file is parsed when the first of its names is used.
#include "lang/Builtin.h"
#include "lib/Library.h"
#include "sema/FileScope.h"
#include "sema/Syntactic.h"
#include <mutex>

namespace tegula::sema {

using lang::Value;

static std::shared_ptr<const lang::Function> libdeviceFunction(std::string_view name);
static std::vector<std::string> libdeviceNames();

namespace {

struct Row {
  std::string_view dotted;
  std::string_view prefix;    // in lang's table
  enum Library { None, Language, Libdevice } library; // the library with its functions
};
/// Modules below `triton` or `tegula`, which are equivalent.
constexpr Row rows[] = {
    {"language", "", Row::Language},
    {"language.core", "", Row::Language},
    {"language.standard", "", Row::Language},
    {"language.random", "", Row::Language},
    {"language.math", "math.", Row::None},
    {"language.target_info", "target_info.", Row::None},
    {"language.extra", "extra.", Row::None},
    {"language.extra.libdevice", "extra.libdevice.", Row::Libdevice},
    {"language.extra.cuda", "extra.cuda.", Row::None},
    {"language.extra.cuda.libdevice", "extra.cuda.libdevice.", Row::Libdevice},
    {"language.extra.cpu", "extra.cpu.", Row::None},
    {"language.extra.cpu.libdevice", "extra.cpu.libdevice.", Row::Libdevice},
    {"language.extra.hip", "extra.hip.", Row::None},
    {"language.extra.hip.libdevice", "extra.hip.libdevice.", Row::Libdevice},
};

/// Names that `triton` offers to host code; in a kernel they cannot be called.
constexpr std::string_view hostNames[] = {"jit", "autotune", "heuristics", "Config", "constexpr_function",
                                          "aggregate", "must_use_result", "testing", "runtime", "compile",
                                          "knobs", "reinterpret", "cdiv_host"};

Value opaque(std::string name) {
  return Value(std::make_shared<const lang::OpaqueValue>(lang::OpaqueValue{std::move(name), 0}));
}

class LanguageScope final : public lang::Scope {
public:
  LanguageScope(std::string dotted, const Row &row) : dotted_(std::move(dotted)), row_(row) {}
  std::optional<Binding> lookup(std::string_view name) const override {
    std::string full = std::string(row_.prefix) + std::string(name);
    if (!name.starts_with("python") && name.find('.') == name.npos) {
      if (const lang::Builtin *b = lang::findBuiltin(full))
        return Binding{Value(b)};
      if (std::optional<Value> k = lang::findConstant(full))
        return Binding{*k};
    }
    if (std::shared_ptr<const lang::Module> m = builtinModule(dotted_ + "." + std::string(name)))
      return Binding{Value(m)};
    if (row_.library != Row::None)
      if (std::shared_ptr<const lang::Function> f =
              row_.library == Row::Libdevice ? libdeviceFunction(name) : libraryFunction(name))
        return Binding{Value(f)};
    return std::nullopt;
  }
  std::vector<std::string> publicNames() const override {
    std::vector<std::string> out;
    if (row_.library != Row::None)
      out = row_.library == Row::Libdevice ? libdeviceNames() : libraryNames();
    for (const lang::Builtin *b : lang::allBuiltins()) {
      std::string_view full = b->name, name = full.substr(full.rfind('.') + 1); // one row may represent several modules
      if (!name.starts_with('_') && lang::findBuiltin(std::string(row_.prefix) + std::string(name)))
        out.emplace_back(name);
    }
    if (row_.prefix.empty())
      for (std::string &k : lang::constantNames())
        if (k.find('.') == k.npos)
          out.push_back(std::move(k));
    // Submodules, except core, standard and random, which are other names of this module.
    for (const Row &r : rows)
      if (r.prefix != row_.prefix)
        add(r.dotted, row_.dotted, out);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

private:
  /// Adds `full`, if it is directly below the module.
  static void add(std::string_view full, std::string_view module, std::vector<std::string> &out) {
    if (full.starts_with(module) && full.size() > module.size() && full[module.size()] == '.' &&
        full.find('.', module.size() + 1) == full.npos)
      out.emplace_back(full.substr(module.size() + 1));
  }
  std::string dotted_;
  const Row &row_;
};

class TritonScope final : public lang::Scope {
public:
  explicit TritonScope(std::string dotted) : dotted_(std::move(dotted)) {}
  std::optional<Binding> lookup(std::string_view name) const override {
    if (std::shared_ptr<const lang::Module> m = builtinModule(dotted_ + "." + std::string(name)))
      return Binding{Value(m)};
    if (name == "cdiv" || name == "next_power_of_2")
      return Binding{Value(libraryFunction(name))};
    for (std::string_view h : hostNames)
      if (h == name)
        return Binding{opaque(dotted_ + "." + std::string(name))};
    return std::nullopt;
  }

private:
  std::string dotted_;
};

class MathScope final : public lang::Scope {
public:
  std::optional<Binding> lookup(std::string_view name) const override {
    std::string full = "python.math." + std::string(name);
    if (const lang::Builtin *b = lang::findBuiltin(full))
      return Binding{Value(b)};
    std::optional<Value> k = lang::findConstant(full);
    return k ? std::optional(Binding{*k}) : std::nullopt;
  }
};

std::shared_ptr<const lang::Scope> makeScope(const std::string &dotted) {
  if (dotted == "math")
    return std::make_shared<MathScope>();
  if (dotted == "triton" || dotted == "tegula")
    return std::make_shared<TritonScope>(dotted);
  std::string_view below(dotted);
  if (!below.starts_with("triton.") && !below.starts_with("tegula."))
    return nullptr;
  below.remove_prefix(7);
  for (const Row &r : rows)
    if (r.dotted == below)
      return std::make_shared<LanguageScope>(dotted, r);
  return nullptr;
}

/// The library: the file that defines each of its names (found by scanning the text), and the files parsed so far.
/// Names of the files libdevice_*.py belong to libdevice only. Internal names are included there, for use among those
/// files; so are those of standard.py, which users call, and of atomic.py, which builtins call.
class Library {
  using Index = std::map<std::string_view, const LibraryFile *, std::less<>>;

public:
  Library() {
    for (const LibraryFile &f : libraryFiles()) {
      bool isLibdevice = f.name.starts_with("libdevice_"),
           internal = isLibdevice || f.name == "standard.py" || f.name == "atomic.py";
      std::string_view t = f.text;
      for (size_t at = t.find("\ndef "); at != t.npos; at = t.find("\ndef ", at + 1)) {
        std::string_view name = t.substr(at + 5, t.find('(', at) - at - 5);
        if (internal || !name.starts_with("_"))
          (isLibdevice ? libdevice : language).emplace(name, &f);
      }
    }
  }

  std::shared_ptr<const lang::Function> find(const Index &index, std::string_view name) {
    auto it = index.find(name);
    if (it == index.end())
      return nullptr;
    std::shared_ptr<const lang::Module> m = load(*it->second);
    std::optional<Value> v = m ? m->attribute(name) : std::nullopt;
    return v && v->is<std::shared_ptr<const lang::Function>>() ? v->get<std::shared_ptr<const lang::Function>>()
                                                               : nullptr;
  }

  static std::vector<std::string> names(const Index &index) {
    std::vector<std::string> out;
    for (const auto &[n, f] : index)
      if (!n.starts_with("_"))
        out.emplace_back(n);
    return out;
  }

  Index language, libdevice;

private:
  std::shared_ptr<const lang::Module> load(const LibraryFile &f) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<const lang::Module> &m = loaded_[f.name];
    if (!m) {
      // Only messages of the loader itself are possible, and the library's files are tested.
      DiagEngine ignored;
      m = loader_.loadText("tegula/lib/" + std::string(f.name), std::string(f.text), ignored);
    }
    return m;
  }

  /// A file may use names of another one at its top level.
  std::recursive_mutex mutex_;
  std::map<std::string_view, std::shared_ptr<const lang::Module>> loaded_;
  ModuleLoader loader_;
};

Library &library() {
  // Never destroyed: locations in diagnostics and IR point into its files.
  static Library *l = new Library;
  return *l;
}

} // namespace

std::shared_ptr<const lang::Module> builtinModule(std::string_view dotted) {
  struct Table {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const lang::Module>, std::less<>> modules;
  };
  static Table *table = new Table;
  std::lock_guard lock(table->mutex);
  auto it = table->modules.find(dotted);
  if (it != table->modules.end())
    return it->second;
  std::string name(dotted);
  std::shared_ptr<const lang::Scope> scope = makeScope(name);
  if (!scope)
    return nullptr;
  auto m = std::make_shared<lang::Module>();
  m->name = name;
  m->scope = scope;
  return table->modules.emplace(name, std::move(m)).first->second;
}

std::shared_ptr<const lang::Function> libraryFunction(std::string_view name) {
  return library().find(library().language, name);
}
static std::shared_ptr<const lang::Function> libdeviceFunction(std::string_view name) {
  return library().find(library().libdevice, name);
}
std::vector<std::string> libraryNames() { return Library::names(library().language); }
static std::vector<std::string> libdeviceNames() { return Library::names(library().libdevice); }

} // namespace tegula::sema
