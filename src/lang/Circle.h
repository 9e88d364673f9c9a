// Ownership of what a binding makes: functions, classes of aggregates and modules that may refer to each other in
// circles (a function that calls itself, a method that makes its class). All of a circle is freed as soon as nobody
// outside of it holds any of it.
//
//   - Each such object is a Node and belongs to one Circle, which owns it. A Circle is a strongly connected part of the
//     graph "refers to": from each of its nodes there is a way to each other. Most have one node.
//   - A pointer to a node that somebody outside holds is a ticket: a std::shared_ptr to the object that owns the node's
//     Circle (the aliasing constructor). There is no other kind of owner, so whoever has a ticket may copy it and read
//     what it points to without a lock.
//   - What a node stores (names bound, defaults, members) holds pointers that own nothing, made by held(). In their
//     place the node's Circle has a ticket for each node of another Circle that it refers to; within a Circle nobody
//     owns anybody.
//   - attached() gives tickets for such pointers on the way out. The Circle that stores them is alive, since the reader
//     came by a ticket.
//   - A new reference that closes a way around merges all Circles on it into the largest of them (held() looks for that
//     way only from nodes that are referred to already). The others stay after as shells that keep the merged one alive
//     for those who have tickets of them.
//
// References are never taken back: what replaces a bound name or a default leaves the old object alive as long as the
// node.
//
// Threads: one lock for the shape of all circles, exclusive in held(), shared in attached(); no callback and no
// destructor of a node runs under it. Writing to what a node stores is up to its owner to guard.
#pragma once
#include "lang/Value.h"
#include <unordered_map>

namespace tegula::lang {

class Circle;

/// The part of an object that circles know.
class Node {
public:
  virtual ~Node() = default;

private:
  friend class Circle;
  friend struct Circles;
  Circle *circle_ = nullptr; // that owns it
  bool referenced_ = false;  // something refers to it, or did
};

/// A ticket for a new T (Function, RecordClass, Module), alone in a circle of its own; its `node` is set.
template <typename T> std::shared_ptr<T> makeNode();

/// `v` as `holder` stores it: with pointers that own nothing. From now on `holder` keeps the nodes in it alive, and
/// must be alive itself.
Value held(Node &holder, const Value &v);
/// What a node stores, with tickets. Only while the node is alive. Other values come back as they are.
Value attached(const Value &v);

class Circle : public std::enable_shared_from_this<Circle> {
public:
  Circle() = default;
  Circle(const Circle &) = delete;
  ~Circle();
  void add(std::unique_ptr<Node> node);

private:
  friend struct Circles;
  using Tickets = std::unordered_map<Node *, std::shared_ptr<Circle>>;
  std::vector<std::unique_ptr<Node>> nodes_;
  Tickets outward_;               // nodes of other circles that these refer to
  std::shared_ptr<Circle> into_;  // of a shell: where its nodes are
};

template <typename T> std::shared_ptr<T> makeNode() {
  struct Owner final : Node {
    T object;
  };
  auto owner = std::make_unique<Owner>();
  T *object = &owner->object;
  object->node = owner.get();
  auto circle = std::make_shared<Circle>();
  circle->add(std::move(owner));
  return std::shared_ptr<T>(std::move(circle), object);
}

} // namespace tegula::lang
