// Releasing and acquiring knowledge (Clock.h).
#include "sim/State.h"

namespace tegula::sim {

static void publish(const Thread *t, Clock &into) {
  Clocks &clocks = t->cluster->clocks;
  into.know[t->id] = clocks.now;
  into.know[clocks.warpEntry(t->id / 32)] = clocks.now;
  into.proxy[t->id] = std::max(into.proxy[t->id], t->fenced);
}

void release(Thread *t, Clock *&into) {
  Clocks &clocks = t->cluster->clocks;
  if (!into)
    into = clocks.make(t->clock);
  else
    clocks.merge(*into, *t->clock);
  publish(t, *into);
}

void acquire(Thread *t, Clock *from) {
  if (!from || from == t->clock)
    return;
  Clocks &clocks = t->cluster->clocks;
  Clock *joined = clocks.join(t->clock, from);
  clocks.drop(t->clock);
  t->clock = joined;
}

void learn(Thread *t, uint32_t who, uint32_t stamp) {
  if (t->clock->know[who] >= stamp)
    return;
  Clock *better = t->cluster->clocks.with(t->clock, who, stamp);
  t->cluster->clocks.drop(t->clock);
  t->clock = better;
}

void synchronize(Cluster &c, Thread *const *list, size_t count, Clock *extra) {
  Clocks &clocks = c.clocks;
  Clock *all = clocks.make(list[0]->clock);
  uint32_t visit = ++clocks.visits;
  list[0]->clock->mark = visit;
  for (size_t i = 0; i < count; ++i) {
    Thread *t = list[i];
    if (t->clock->mark != visit)
      clocks.merge(*all, *t->clock);
    t->clock->mark = visit;
  }
  for (size_t i = 0; i < count; ++i)
    publish(list[i], *all);
  if (extra)
    clocks.merge(*all, *extra);
  if (count == c.threads.size())
    all->floor = clocks.now;
  all->refs = uint32_t(count);
  for (size_t i = 0; i < count; ++i) {
    clocks.drop(list[i]->clock);
    list[i]->clock = all;
  }
  clocks.advance();
}

Actor actorOf(const Thread *t, int32_t site) {
  return {t->clock, t->id, t->id, t->id - t->lane, 1u << t->lane, t->fenced, site};
}

} // namespace tegula::sim
