// Nodes that refer to each other: who is alive as long as whom, tickets in values of any kind, changes of shape under
// readers.
#include "lang/Circle.h"
#include "Fixture.h"
#include "support/Gate.h"
#include <random>
#include <set>
#include <thread>

namespace tegula::lang {
namespace {

using ClassPtr = std::shared_ptr<const RecordClass>;
using Probe = std::weak_ptr<const Aggregate>; // of a node; no shell of a circle keeps it

std::shared_ptr<RecordClass> node(const std::string &name = "C") {
  std::shared_ptr<RecordClass> c = makeNode<RecordClass>();
  c->kind = RecordClass::Kind::Aggregate;
  c->name = name;
  c->aggregate = std::make_shared<Aggregate>();
  return c;
}
Probe probe(const ClassPtr &c) { return c->aggregate; }
void refer(const ClassPtr &from, const Value &to, const std::string &name = "next") {
  from->aggregate->members.push_back({name, held(*from->node, to), Aggregate::Member::Role::Plain});
}
void refer(const ClassPtr &from, const ClassPtr &to, const std::string &name = "next") { refer(from, Value(to), name); }
ClassPtr next(const RecordClass &c) { return findMember(c, "next")->value.get<ClassPtr>(); }

TEST(Circle, ANodeThatRefersToItselfEnds) {
  auto c = node();
  Probe p = probe(c);
  refer(c, c);
  EXPECT_EQ(next(*c), c);
  ClassPtr other = next(*c);
  c.reset();
  EXPECT_FALSE(p.expired());
  other.reset();
  EXPECT_TRUE(p.expired());
}

TEST(Circle, EachMemberKeepsTheWholeCircleAndNothingElse) {
  for (size_t kept = 0; kept < 4; ++kept) {
    std::vector<ClassPtr> all;
    for (size_t i = 0; i < 4; ++i) all.push_back(node(std::to_string(i)));
    std::vector<Probe> probes;
    for (const ClassPtr &c : all) probes.push_back(probe(c));
    for (size_t i = 0; i < 4; ++i) refer(all[i], all[(i + 1) % 4]);
    auto caller = node("caller");
    Probe callers = probe(caller);
    refer(caller, all[1]);
    ClassPtr ticket = all[kept];
    all.clear();
    caller.reset();
    EXPECT_TRUE(callers.expired());
    for (const Probe &p : probes) EXPECT_FALSE(p.expired());
    // Around, each time with the ticket of the one before only.
    for (size_t i = 0; i < 9; ++i) ticket = next(*ticket);
    EXPECT_EQ(ticket->name, std::to_string((kept + 9) % 4));
    ticket.reset();
    for (const Probe &p : probes) EXPECT_TRUE(p.expired());
  }
}

TEST(Circle, WhoRefersToItKeepsIt) {
  auto caller = node("caller"), a = node("a"), b = node("b");
  Probe p = probe(a);
  refer(caller, a);
  refer(a, b);
  refer(b, a); // after `caller` had its ticket of `a`
  a.reset(), b.reset();
  ASSERT_FALSE(p.expired());
  EXPECT_EQ(next(*next(*caller))->name, "b");
  caller.reset();
  EXPECT_TRUE(p.expired());
}

/// What is reachable from the tickets left is alive, and nothing else, in any graph and whatever the order of
/// everything.
TEST(Circle, RandomGraphs) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const size_t n = 1 + random() % 24;
    std::vector<ClassPtr> tickets(n);
    std::vector<Probe> probes;
    std::vector<std::set<size_t>> edges(n);
    for (size_t i = 0; i < n; ++i) probes.push_back(probe(tickets[i] = node()));
    auto check = [&] {
      std::set<size_t> alive;
      std::vector<size_t> pending;
      for (size_t i = 0; i < n; ++i)
        if (tickets[i]) pending.push_back(i);
      while (!pending.empty()) {
        size_t i = pending.back();
        pending.pop_back();
        if (alive.insert(i).second) pending.insert(pending.end(), edges[i].begin(), edges[i].end());
      }
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(!probes[i].expired(), alive.contains(i)) << "round " << round << ", node " << i << " of " << n;
    };
    for (size_t steps = random() % (3 * n); steps > 0; --steps) {
      size_t from = random() % n, to = random() % n;
      if (random() % 8 == 0) tickets[random() % n].reset();
      if (!tickets[from] || !tickets[to]) continue;
      refer(tickets[from], tickets[to]);
      edges[from].insert(to);
      if (random() % 4 == 0) check();
    }
    while (std::any_of(tickets.begin(), tickets.end(), [](const ClassPtr &t) { return t != nullptr; })) {
      tickets[random() % n].reset();
      check();
    }
  }
}

TEST(Circle, TicketsInValuesOfAnyKind) {
  RecordClass pair{RecordClass::Kind::NamedTuple, "Pair", {"a", "b"}, {}};
  auto inTuple = [](const Value &v) { return Value::tuple({Value::integer(1), Value::tuple({v})}); };
  auto inRecord = [&](const Value &v) {
    return Value(std::make_shared<const RecordValue>(std::make_shared<const RecordClass>(pair),
                                                     std::vector<Value>{Value::none(), v}));
  };
  auto instance = [](const Value &v) {
    return Value(std::make_shared<const RecordValue>(v.get<ClassPtr>(), std::vector<Value>{}));
  };
  auto inDefault = [&](const Value &v) {
    RecordClass c = pair;
    c.defaults = {v};
    return Value(std::make_shared<const RecordClass>(c));
  };
  auto inSlice = [](const Value &v) {
    return Value(std::make_shared<const SliceValue>(SliceValue{{v, Value::none(), Value::none()}}));
  };
  auto inMethod = [](const Value &v) {
    return Value(std::make_shared<const BoundMethod>(
        BoundMethod{std::make_shared<const Value>(Value::none()), std::make_shared<const Value>(v)}));
  };
  auto inOption = [](const Value &v) {
    return Value(std::make_shared<const RangeValue>(RangeValue{RangeValue::Kind::Range, {}, {{"x", v}}}));
  };
  // A tuple that would be enormous if each use of a part counted.
  auto shared = [](Value v) {
    for (int i = 0; i < 100; ++i) v = Value::tuple({v, v});
    return v;
  };
  const std::function<Value(const Value &)> kinds[] = {inTuple, inRecord, instance, inDefault,
                                                       inSlice, inMethod, inOption, shared};
  for (const auto &wrap : kinds) {
    auto a = node("a"), b = node("b");
    Probe p = probe(a);
    refer(a, wrap(Value(ClassPtr(b))));
    refer(b, wrap(Value(ClassPtr(a))));
    // Whoever has what b holds, has a.
    Value out = findMember(*b, "next")->value;
    EXPECT_EQ(out.kind(), wrap(Value(ClassPtr(a))).kind());
    a.reset(), b.reset();
    EXPECT_FALSE(p.expired());
    out = Value::none();
    EXPECT_TRUE(p.expired());
  }
}

TEST(Circle, ValuesWithoutNodesStayTheSame) {
  auto c = node();
  Value v = Value::tuple({Value::integer(1), Value::str("x")});
  EXPECT_TRUE(samePayload(held(*c->node, v), v));
  EXPECT_TRUE(samePayload(attached(v), v));
}

TEST(Circle, LongChainsEndWithoutDeepRecursion) {
  ClassPtr first;
  Probe last;
  for (int i = 0; i < 100000; ++i) {
    ClassPtr c = node();
    if (first) refer(c, first);
    else last = probe(c);
    first = c;
  }
  EXPECT_FALSE(last.expired());
  first.reset();
  EXPECT_TRUE(last.expired());
}

/// Readers go around a ring while it becomes part of other, larger circles; the last of them ends it.
TEST(Circle, MergesUnderReaders) {
  constexpr size_t length = 8;
  std::vector<Probe> probes;
  std::vector<ClassPtr> ring;
  for (size_t i = 0; i < length; ++i) ring.push_back(node());
  for (size_t i = 0; i < length; ++i) refer(ring[i], ring[(i + 1) % length]);
  for (const ClassPtr &c : ring) probes.push_back(probe(c));
  std::vector<std::thread> readers;
  for (size_t t = 0; t < 4; ++t)
    readers.emplace_back([at = ring[t]]() mutable {
      GateSection section; // as every call has one: its lock must not stand in for that of circles
      for (int i = 0; i < 3000; ++i) at = next(*at);
    });
  std::vector<ClassPtr> mine = std::move(ring);
  std::optional<GateSection> section(std::in_place);
  for (size_t round = 0; round < 40; ++round) {
    std::vector<ClassPtr> others;
    for (size_t i = 0; i < 2 * length * (round + 1); ++i) others.push_back(node());
    for (size_t i = 0; i < others.size(); ++i) refer(others[i], others[(i + 1) % others.size()]);
    refer(others[0], mine[round % length], "ring");
    probes.push_back(probe(others[0]));
    held(*mine[0]->node, Value(others[0])); // as of a reference that nobody reads
  }
  mine.clear();
  section.reset();
  for (std::thread &t : readers) t.join();
  for (const Probe &p : probes) EXPECT_TRUE(p.expired());
}

} // namespace
} // namespace tegula::lang
