#include "sema/Frame.h"

namespace tegula::sema {

const Var *Env::find(std::string_view name) const {
  for (const Env *e = this; e; e = e->outer_)
    if (const Entry *own = e->own(name))
      return &own->var;
  return nullptr;
}

Var *Env::edit(std::string_view name) {
  if (Entry *mine = const_cast<Entry *>(own(name)))
    return &mine->var;
  for (const Env *e = outer_; e; e = e->outer_)
    if (const Entry *theirs = e->own(name))
      return &add(Entry(*theirs));
  return nullptr;
}

void Env::set(std::string_view name, Var v) {
  if (Var *old = edit(name))
    *old = std::move(v);
  else
    add({name, std::move(v), count()});
}

const Env::Entry *Env::own(std::string_view name) const {
  if (!index_.empty()) {
    auto it = index_.find(name);
    return it == index_.end() ? nullptr : &entries_[it->second];
  }
  for (const Entry &e : entries_)
    if (e.name == name)
      return &e;
  return nullptr;
}

Var &Env::add(Entry e) {
  entries_.push_back(std::move(e));
  if (entries_.size() == few + 1)
    for (size_t i = 0; i < entries_.size(); ++i)
      index_.emplace(entries_[i].name, i);
  else if (entries_.size() > few)
    index_.emplace(entries_.back().name, entries_.size() - 1);
  return entries_.back().var;
}

} // namespace tegula::sema
