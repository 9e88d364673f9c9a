// Module files: reads and parses them, and the modules beside them.
#include "sema/FileScope.h"
#include "sema/Diagnostics.h"
#include "syntax/Parser.h"
#include "support/Npy.h"
#include <set>
#include <sys/stat.h>

namespace tegula::sema {

using lang::Function;
using lang::Module;
using lang::Value;

namespace {

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? std::string() : path.substr(0, slash + 1);
}

/// As in Python, only a regular file is a module: reading a pipe may take forever.
bool isFile(const std::string &path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

} // namespace

struct ModuleLoader::Impl {
  /// By path; null while a file is being loaded.
  std::map<std::string, std::shared_ptr<const Module>> files;
  std::optional<std::map<std::string, std::string>> provided;
  /// Files that could not be loaded, kept for the messages that point into them.
  std::vector<std::shared_ptr<const SourceFile>> badFiles;

  std::shared_ptr<const Module> load(std::shared_ptr<const SourceFile> file, DiagEngine &diag);
  std::shared_ptr<const Module> load(std::string name, std::string text, DiagEngine &diag) {
    return load(std::make_shared<const SourceFile>(std::move(name), std::move(text)), diag);
  }
};

ModuleLoader::ModuleLoader() : impl_(std::make_unique<Impl>()) {}
ModuleLoader::~ModuleLoader() = default;

std::shared_ptr<const Module> ModuleLoader::Impl::load(std::shared_ptr<const SourceFile> file, DiagEngine &diag) {
  unsigned before = diag.errorCount();
  std::shared_ptr<const syntax::Tree> tree = syntax::parse(file, diag);
  if (diag.errorCount() != before) {
    // Diagnostics point into the text.
    badFiles.push_back(file);
    return nullptr;
  }
  auto scope = std::make_shared<FileScope>();
  scope->tree = tree;
  auto sibling = [&](const std::string &stem, Loc import) -> std::shared_ptr<const Module> {
    for (const char *suffix : {".py", "/__init__.py"}) {
      std::string path = stem + suffix;
      auto known = files.find(path);
      if (known != files.end())
        return known->second;
      if (provided ? !provided->contains(path) : !isFile(path))
        continue;
      files[path] = nullptr;
      std::string source, error;
      if (provided)
        source = provided->at(path);
      else if (!readFile(path, source, error, sourceLimit)) {
        diag.report(diag::unreadableModule, import, error);
        return nullptr;
      }
      std::shared_ptr<const Module> m = load(path, std::move(source), diag);
      return files[path] = m;
    }
    return nullptr;
  };
  bindTopLevel(*scope, folderOf(file->name()), sibling);
  auto m = std::make_shared<Module>();
  m->name = file->name();
  m->scope = scope;
  m->tree = tree;
  return m;
}

std::shared_ptr<const Module> ModuleLoader::loadText(std::string name, std::string text, DiagEngine &diag) {
  impl_->files[name] = nullptr;
  std::shared_ptr<const Module> m = impl_->load(name, std::move(text), diag);
  impl_->files[name] = m;
  return m;
}

void ModuleLoader::provide(std::map<std::string, std::string> texts) { impl_->provided = std::move(texts); }

std::map<std::string, std::string> ModuleLoader::texts() const {
  std::map<std::string, std::string> out;
  for (const auto &[path, m] : impl_->files)
    if (m && m->tree)
      out.emplace(path, m->tree->file().text());
  return out;
}

std::shared_ptr<const Module> ModuleLoader::load(std::shared_ptr<const SourceFile> file, DiagEngine &diag) {
  return impl_->load(std::move(file), diag);
}

std::vector<std::shared_ptr<const Function>> ModuleLoader::jitFunctions(const Module &m) {
  std::vector<std::shared_ptr<const Function>> out;
  std::set<const Function *> seen;
  if (!m.tree)
    return out;
  for (std::string_view n : assignedNames(m.tree->body)) {
    std::optional<Value> v = m.attribute(n);
    if (!v || !v->is<std::shared_ptr<const Function>>())
      continue;
    std::shared_ptr<const Function> f = v->get<std::shared_ptr<const Function>>();
    // Imported functions belong to their own file.
    if (f->kind == Function::Kind::Jit && f->tree == m.tree && seen.insert(f.get()).second)
      out.push_back(f);
  }
  return out;
}

std::shared_ptr<const Function> ModuleLoader::kernel(const Module &m, std::string_view name, DiagEngine &diag) {
  std::optional<Value> v = m.attribute(name);
  if (v && v->is<std::shared_ptr<const Function>>() &&
      v->get<std::shared_ptr<const Function>>()->kind == Function::Kind::Jit)
    return v->get<std::shared_ptr<const Function>>();
  std::vector<std::string> names;
  std::string all;
  for (const auto &f : jitFunctions(m)) {
    names.push_back(f->name);
    all += (all.empty() ? "; its kernels are `" : "`, `") + f->name;
  }
  std::string near = nearestName(name, names);
  std::string hint = !near.empty() ? "; did you mean `" + near + "`?"
                     : all.empty() ? "; it has no @triton.jit functions"
                                   : all + "`";
  diag.report(diag::noSuchKernel, {}, m.name, name, hint);
  return nullptr;
}

bool ModuleLoader::bind(const Module &m, std::string_view name, std::shared_ptr<const Function> function) {
  if (!m.tree) return false;
  // Loaded files have no other scope; their modules are const to readers.
  auto &scope = const_cast<FileScope &>(static_cast<const FileScope &>(*m.scope));
  scope.bind(name, {Value(std::move(function)), true, {}});
  return true;
}

} // namespace tegula::sema
