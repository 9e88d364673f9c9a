// Ownership of objects that a binding creates: functions, classes of aggregates and modules, whose references may form
// cycles (a function that calls itself, a method that constructs its class). A whole cycle is freed when the last
// outside reference to any of its members goes away.
//
//   - Each such object is a Node and belongs to one Circle, which owns it. A Circle is a strongly connected component
//     of the graph "refers to": each of its nodes reaches each other node. Most have one node.
//   - A pointer to a node from outside is a ticket: a std::shared_ptr to the object that owns the node's Circle (the
//     aliasing constructor). There is no other kind of owner, so the holder of a ticket may copy it and read the object
//     without a lock.
//   - The values that a node stores (names bound, defaults, members) hold non-owning pointers, made by held(). Instead,
//     the node's Circle has a ticket for each node of another Circle that it refers to; within a Circle there is no
//     ownership.
//   - attached() returns tickets for such pointers when they are read. The Circle that stores them is alive, since the
//     reader has a ticket to it.
//   - A new reference that closes a cycle merges all Circles on it into the largest of them (held() searches for the
//     cycle only from nodes that are referred to already). The others remain as shells that keep the merged one alive
//     for holders of their tickets.
//
// References are never removed: after a bound name or a default is replaced, the old object lives as long as the node.
//
// Threads: one lock for the shape of all circles, exclusive in held(), shared in attached(); no callback and no
// destructor of a node runs under it. The owner of a node must guard writes to the values that it stores.
#pragma once
#include "lang/Value.h"
#include <unordered_map>

namespace tegula::lang {

class Circle;

/// The part of an object that a Circle manages.
class Node {
public:
  virtual ~Node() = default;

private:
  friend class Circle;
  friend struct Circles;
  Circle *circle_ = nullptr; // its owner
  bool referenced_ = false;  // something refers to it, or did
};

/// A ticket for a new T (Function, RecordClass, Module), alone in a circle of its own; its `node` is set.
template <typename T> std::shared_ptr<T> makeNode();

/// `v` as `holder` stores it: with non-owning pointers. From now on `holder`, which must be alive, keeps the nodes in
/// it alive.
Value held(Node &holder, const Value &v);
/// A stored value, with tickets in place of its non-owning pointers. The node must be alive. Other values are returned
/// unchanged.
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
  std::shared_ptr<Circle> into_;  // of a shell: the Circle that has its nodes
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
