// Circles: their shape, and values with and without tickets.
#include "lang/Circle.h"
#include "support/Gate.h"
#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_set>

namespace tegula::lang {

// Fallbacks, see Value.h.
[[gnu::weak]] Node *nodeOf(const Function &) { return nullptr; }
[[gnu::weak]] Node *nodeOf(const Module &) { return nullptr; }
static Node *nodeOf(const RecordClass &c) { return c.node; }

static std::shared_mutex &shape() {
  static std::shared_mutex m; // only in a GateSection
  return m;
}

/// Operations on circles under the lock.
struct Circles {
  /// Under the shared lock.
  static std::shared_ptr<Circle> ticket(const Node &n) { return n.circle_->shared_from_this(); }

  /// Under the exclusive lock. `dropped`: objects to release after it.
  static void refer(Node &from, const std::vector<Node *> &to, std::vector<std::shared_ptr<Circle>> &dropped) {
    if (from.referenced_ || from.circle_->nodes_.size() > 1) {
      std::unordered_set<Circle *> around = between(to, from.circle_);
      if (around.size() > 1)
        merge(around, dropped);
    }
    for (Node *n : to) {
      n->referenced_ = true;
      if (n->circle_ != from.circle_)
        from.circle_->outward_.try_emplace(n, ticket(*n));
    }
  }

private:
  /// `home` and all circles on paths from `starts` to it.
  static std::unordered_set<Circle *> between(const std::vector<Node *> &starts, Circle *home) {
    std::unordered_map<Circle *, std::vector<Circle *>> before; // of each that is reached
    std::vector<Circle *> pending;
    for (Node *n : starts)
      if (before.try_emplace(n->circle_).second && n->circle_ != home)
        pending.push_back(n->circle_);
    while (!pending.empty()) {
      Circle *c = pending.back();
      pending.pop_back();
      for (const auto &[to, ticket] : c->outward_) {
        auto [it, isNew] = before.try_emplace(to->circle_);
        it->second.push_back(c);
        if (isNew && to->circle_ != home)
          pending.push_back(to->circle_);
      }
    }
    std::unordered_set<Circle *> found = {home};
    pending = {home};
    while (!pending.empty()) {
      Circle *c = pending.back();
      pending.pop_back();
      auto it = before.find(c);
      if (it == before.end())
        continue;
      for (Circle *b : it->second)
        if (found.insert(b).second)
          pending.push_back(b);
    }
    return found;
  }

  static void merge(const std::unordered_set<Circle *> &circles, std::vector<std::shared_ptr<Circle>> &dropped) {
    // The largest remains, so that chains of shells have logarithmic depth.
    Circle *all = *std::max_element(circles.begin(), circles.end(), [](const Circle *a, const Circle *b) {
      return a->nodes_.size() < b->nodes_.size();
    });
    for (Circle *c : circles) {
      if (c == all)
        continue;
      for (std::unique_ptr<Node> &n : c->nodes_) {
        n->circle_ = all;
        all->nodes_.push_back(std::move(n));
      }
      c->nodes_.clear();
      all->outward_.merge(c->outward_);
      for (auto &[to, ticket] : c->outward_) // both had one
        dropped.push_back(std::move(ticket));
      c->outward_.clear();
      c->into_ = all->shared_from_this();
    }
    std::erase_if(all->outward_, [&](auto &o) {
      bool inside = o.first->circle_ == all;
      if (inside)
        dropped.push_back(std::move(o.second));
      return inside;
    });
  }
};

void Circle::add(std::unique_ptr<Node> node) {
  node->circle_ = this;
  nodes_.push_back(std::move(node));
}

Circle::~Circle() {
  // Not one inside of the other, however long the chain of circles that end with this one.
  struct Remains {
    std::vector<std::unique_ptr<Node>> nodes;
    Tickets outward;
    std::shared_ptr<Circle> into;
  };
  static thread_local std::vector<Remains> *ending = nullptr;
  Remains mine{std::move(nodes_), std::move(outward_), std::move(into_)};
  if (ending) {
    ending->push_back(std::move(mine));
    return;
  }
  std::vector<Remains> pending;
  ending = &pending;
  for (pending.push_back(std::move(mine)); !pending.empty();) {
    Remains next = std::move(pending.back());
    pending.pop_back();
    next = Remains();
  }
  ending = nullptr;
}

namespace {

template <typename T> using Ptr = std::shared_ptr<const T>;

/// Exchanges the pointers to nodes in a value, at any depth. `Owner` gives what owns such a pointer, null for nothing.
template <typename Owner> class Rewriter {
public:
  explicit Rewriter(Owner owner) : owner_(std::move(owner)) {}

  /// False: there are none, and `v` is as it was.
  bool rewrite(Value &v) {
    return pointer<Function>(v) || pointer<Module>(v) || pointer<RecordClass>(v) || payload<TupleValue>(v) ||
           payload<RecordValue>(v) || payload<RecordClass>(v) || payload<SliceValue>(v) || payload<BoundMethod>(v) ||
           payload<RangeValue>(v);
  }

private:
  template <typename T> bool pointer(Value &v) {
    if (!v.is<Ptr<T>>())
      return false;
    const T *object = v.get<Ptr<T>>().get();
    Node *node = nodeOf(*object);
    if (node)
      v = Value(Ptr<T>(owner_(*node), object));
    return node;
  }

  /// Each once, however often it is shared.
  template <typename T> bool payload(Value &v) {
    if (!v.is<Ptr<T>>())
      return false;
    Ptr<T> old = v.get<Ptr<T>>();
    auto [it, isNew] = done_.try_emplace(old.get());
    if (isNew) {
      std::optional<Value> now = changed(*old);
      done_[old.get()] = now;
      if (now)
        v = *now;
      return now.has_value();
    }
    if (it->second)
      v = *it->second;
    return it->second.has_value();
  }

  bool rewriteAll(std::vector<Value> &items) {
    bool any = false;
    for (Value &v : items)
      any |= rewrite(v);
    return any;
  }

  std::optional<Value> changed(const TupleValue &t) {
    std::vector<Value> items = t.items;
    return rewriteAll(items) ? std::optional(Value::tuple(std::move(items))) : std::nullopt;
  }
  std::optional<Value> changed(const RecordValue &r) {
    std::vector<Value> fields = r.fields;
    Value cls(r.cls);
    bool any = rewriteAll(fields);
    if (!rewrite(cls) && !any)
      return std::nullopt;
    return Value(std::make_shared<const RecordValue>(cls.get<Ptr<RecordClass>>(), std::move(fields)));
  }
  std::optional<Value> changed(const RecordClass &c) {
    if (c.aggregate) // a file's, which owns them otherwise
      return std::nullopt;
    RecordClass copy = c;
    return rewriteAll(copy.defaults) ? std::optional(Value(std::make_shared<const RecordClass>(std::move(copy))))
                                     : std::nullopt;
  }
  std::optional<Value> changed(const SliceValue &s) {
    SliceValue copy = s;
    return rewriteAll(copy.parts) ? std::optional(Value(std::make_shared<const SliceValue>(std::move(copy))))
                                  : std::nullopt;
  }
  std::optional<Value> changed(const BoundMethod &m) {
    std::vector<Value> parts = {*m.self, *m.callee};
    if (!rewriteAll(parts))
      return std::nullopt;
    return Value(std::make_shared<const BoundMethod>(std::make_shared<const Value>(parts[0]),
                                                     std::make_shared<const Value>(parts[1])));
  }
  std::optional<Value> changed(const RangeValue &r) {
    RangeValue copy = r;
    bool any = rewriteAll(copy.args);
    for (auto &[name, v] : copy.options)
      any |= rewrite(v);
    return any ? std::optional(Value(std::make_shared<const RangeValue>(std::move(copy)))) : std::nullopt;
  }

  Owner owner_;
  std::unordered_map<const void *, std::optional<Value>> done_; // by payload; nullopt: unchanged
};

} // namespace

Value held(Node &holder, const Value &v) {
  std::vector<Node *> found;
  auto nobody = [&](Node &n) {
    found.push_back(&n);
    return std::shared_ptr<Circle>();
  };
  Value stored = v;
  if (!Rewriter(nobody).rewrite(stored))
    return stored;
  std::vector<std::shared_ptr<Circle>> dropped; // after the lock
  GateSection section;
  std::lock_guard lock(shape());
  Circles::refer(holder, found, dropped);
  return stored;
}

Value attached(const Value &v) {
  std::optional<GateSection> section;
  std::optional<std::shared_lock<std::shared_mutex>> lock; // from the first node on
  auto ticket = [&](Node &n) {
    if (!lock) {
      section.emplace();
      lock.emplace(shape());
    }
    return Circles::ticket(n);
  };
  Value out = v;
  Rewriter(ticket).rewrite(out);
  return out;
}

} // namespace tegula::lang
