// The checks of one access. Words first: almost every access covers whole words that were always used whole.
#include "sim/Shadow.h"
#include <bit>

namespace tegula::sim {

struct ShadowMemory::Check {
  Clocks &clocks;
  const Actor &actor;
  Touch touch;
  uint32_t now;
  bool writes, needsInit, async;
  Conflict found;

  bool knowsWriter(const ShadowRecord &r) const {
    return r.writer == actor.thread || actor.clock->know[r.writer] >= r.writeStamp;
  }
  bool proxySees(const ShadowRecord &r) const {
    if (!clocks.isThread(r.writer) || (r.flags & WaitedCopy))
      return true;
    return r.writer == actor.thread ? actor.fenced >= r.writeStamp : actor.clock->proxy[r.writer] >= r.writeStamp;
  }
};

static uint16_t clampSite(int32_t site) { return site < 0 || site > 0xfffe ? 0xffff : uint16_t(site); }
static int32_t wideSite(uint16_t site) { return site == 0xffff ? -1 : int32_t(site); }

void ShadowMemory::reset(uint32_t bytes) {
  wordCount_ = (bytes + 3) / 4;
  if (wordCount_ > capacity_) {
    words_ = std::make_unique<ShadowRecord[]>(wordCount_);
    capacity_ = wordCount_;
  } else {
    std::fill_n(words_.get(), wordCount_, ShadowRecord{});
  }
  splits_.clear();
  freeSplits_.clear();
  readers_.clear();
  freeReaders_.clear();
}

bool ShadowMemory::knowsReader(const Check &c, const Reader &r) const {
  const Clock &k = *c.actor.clock;
  if (r.mask == 0) {
    bool ownWarp = c.actor.thread != Actor::noThread && r.who == c.clocks.warpEntry(c.actor.thread / 32);
    return ownWarp || k.know[r.who] >= r.stamp;
  }
  if (r.stamp <= k.floor)
    return true;
  for (uint32_t m = r.mask; m; m &= m - 1) {
    uint32_t id = r.who + unsigned(std::countr_zero(m));
    if (id != c.actor.thread && k.know[id] < r.stamp)
      return false;
  }
  return true;
}

void ShadowMemory::clearReaders(ShadowRecord &r) {
  r.reader = {};
  if (r.more) {
    readers_[r.more - 1].clear();
    freeReaders_.push_back(r.more);
    r.more = 0;
  }
}

/// Readers that the new one knows of need not be kept: who is ordered after it is ordered after them.
void ShadowMemory::addReader(const Check &c, ShadowRecord &r) {
  uint32_t who = c.actor.lanes ? c.actor.warpFirst : c.actor.who;
  Reader mine{c.now, c.actor.lanes, uint16_t(who), clampSite(c.actor.site)};
  auto same = [&](Reader &o) {
    if (o.stamp != mine.stamp || o.who != mine.who)
      return false;
    o.mask |= mine.mask;
    return true;
  };
  if (same(r.reader))
    return;
  if (r.more == 0) {
    if (r.reader.stamp == 0 || knowsReader(c, r.reader)) {
      r.reader = mine;
      return;
    }
    if (freeReaders_.empty())
      readers_.emplace_back(), freeReaders_.push_back(uint32_t(readers_.size()));
    r.more = freeReaders_.back();
    freeReaders_.pop_back();
  }
  std::vector<Reader> &list = readers_[r.more - 1];
  for (Reader &o : list)
    if (same(o))
      return;
  std::erase_if(list, [&](const Reader &o) { return knowsReader(c, o); });
  if (r.reader.stamp && !knowsReader(c, r.reader))
    list.push_back(r.reader);
  r.reader = mine;
  if (list.empty())
    freeReaders_.push_back(r.more), r.more = 0;
}

static Conflict writerConflict(const ShadowRecord &r, FaultKind kind) {
  Conflict f;
  f.kind = kind;
  f.who = r.writer, f.stamp = r.writeStamp, f.site = wideSite(r.writeSite), f.otherWrote = true;
  return f;
}

/// Everything that can be wrong with an access of a record, without changing it.
Conflict ShadowMemory::slowChecks(const Check &c, ShadowRecord &r, uint8_t needInit) {
  if (r.flags & BarrierWord)
    return writerConflict(r, FaultKind::Mbarrier);
  if (r.flags & PendingCopy)
    return writerConflict(r, FaultKind::MissingWait);
  if (c.needsInit && (r.init & needInit) != needInit) {
    Conflict f;
    f.kind = FaultKind::Uninitialized;
    f.offset = uint32_t(std::countr_zero(unsigned(needInit & ~r.init)));
    return f;
  }
  bool bothAtomic = c.touch == Touch::Atomic && (r.flags & AtomicWrite);
  if (r.writeStamp && !bothAtomic) {
    if (!c.knowsWriter(r)) {
      bool copied = !c.clocks.isThread(r.writer);
      return writerConflict(r, copied ? FaultKind::MissingWait : FaultKind::SharedRace);
    }
    if (c.async && !c.proxySees(r))
      return writerConflict(r, FaultKind::MissingProxyFence);
  }
  if (!c.writes)
    return {};
  auto readerConflict = [&](const Reader &o) {
    Conflict f;
    bool generic = o.mask || c.clocks.isWarp(o.who);
    f.kind = generic ? FaultKind::SharedRace : FaultKind::AsyncReadOverwritten;
    f.who = o.who, f.lanes = o.mask, f.stamp = o.stamp, f.site = wideSite(o.site);
    return f;
  };
  if (r.reader.stamp && !knowsReader(c, r.reader))
    return readerConflict(r.reader);
  if (r.more)
    for (const Reader &o : readers_[r.more - 1])
      if (!knowsReader(c, o))
        return readerConflict(o);
  return {};
}

Conflict ShadowMemory::touchRecord(const Check &c, ShadowRecord &r, uint8_t needInit) {
  if (Conflict f = slowChecks(c, r, needInit))
    return f;
  if (!c.writes) {
    addReader(c, r);
    return {};
  }
  clearReaders(r);
  r.writeStamp = c.now;
  r.writer = uint16_t(c.actor.who);
  r.writeSite = clampSite(c.actor.site);
  r.init |= needInit;
  r.flags = c.touch == Touch::Atomic ? AtomicWrite : c.touch == Touch::CopyStore ? PendingCopy : 0;
  return {};
}

/// The usual case, nothing wrong and no list of readers: a store by a thread that knows the writer and the reader, ...
static inline bool storeFast(const Clock &k, const Actor &a, uint32_t now, uint16_t site, ShadowRecord &r) {
  if ((r.flags & ~WaitedCopy) | r.split | r.more)
    return false;
  if (r.writer != a.thread && k.know[r.writer] < r.writeStamp)
    return false;
  const Reader &o = r.reader;
  bool readerKnown = o.stamp == 0 || (o.mask && (o.stamp <= k.floor || (o.mask == a.lanes && o.who == a.warpFirst)));
  if (!readerKnown)
    return false;
  r.flags = 0;
  r.reader.stamp = 0;
  r.writeStamp = now;
  r.writer = uint16_t(a.who);
  r.writeSite = site;
  r.init = 0xf;
  return true;
}

/// ... and a load by a thread that knows the writer, of a word that only its warp has read since it last synchronized.
static inline bool loadFast(const Clock &k, const Actor &a, uint32_t now, uint16_t site, ShadowRecord &r) {
  if (((r.flags & ~WaitedCopy) | r.split | r.more) || r.init != 0xf)
    return false;
  if (r.writer != a.thread && k.know[r.writer] < r.writeStamp)
    return false;
  Reader &o = r.reader;
  if (o.stamp == now && o.who == a.warpFirst && o.mask) {
    o.mask |= a.lanes;
    return true;
  }
  if (o.stamp && !(o.mask && o.stamp <= k.floor))
    return false;
  o = {now, a.lanes, uint16_t(a.warpFirst), site};
  return true;
}

ShadowRecord *ShadowMemory::bytesOf(ShadowRecord &word) {
  if (!word.split) {
    if (freeSplits_.empty())
      splits_.emplace_back(), freeSplits_.push_back(uint32_t(splits_.size()));
    uint32_t index = freeSplits_.back();
    freeSplits_.pop_back();
    for (unsigned i = 0; i < 4; ++i) {
      ShadowRecord &b = splits_[index - 1][i];
      b = word;
      b.init = word.init >> i & 1;
      if (word.more && i) {
        if (freeReaders_.empty())
          readers_.emplace_back(), freeReaders_.push_back(uint32_t(readers_.size()));
        b.more = freeReaders_.back();
        freeReaders_.pop_back();
        readers_[b.more - 1] = readers_[word.more - 1];
      }
    }
    word.more = 0;
    word.reader = {};
    word.split = index;
  }
  return splits_[word.split - 1].data();
}

Conflict ShadowMemory::access(Clocks &clocks, const Actor &actor, Touch touch, uint32_t offset, uint32_t bytes) {
  bool writes = touch != Touch::Load && touch != Touch::AsyncLoad;
  bool needsInit = touch == Touch::Load || touch == Touch::AsyncLoad || touch == Touch::Atomic;
  Check c{clocks, actor, touch, clocks.now, writes, needsInit, touch == Touch::AsyncLoad || touch == Touch::AsyncStore,
          {}};
  bool plainLoad = touch == Touch::Load && actor.lanes, plainStore = touch == Touch::Store;
  uint16_t site = clampSite(actor.site);
  for (uint32_t at = offset, end = offset + bytes; at < end;) {
    ShadowRecord &w = words_[at / 4];
    if (at % 4 == 0 && end - at >= 4 &&
        ((plainStore && storeFast(*actor.clock, actor, c.now, site, w)) ||
         (plainLoad && loadFast(*actor.clock, actor, c.now, site, w)))) {
      at += 4;
      continue;
    }
    uint32_t first = at % 4, last = std::min(end - (at - first), 4u);
    bool whole = first == 0 && last == 4;
    if (whole && !w.split) {
      Conflict f = touchRecord(c, w, 0xf);
      if (f)
        return f.offset += at, f;
    } else {
      ShadowRecord *b = bytesOf(w);
      for (uint32_t i = first; i < last; ++i) {
        Conflict f = touchRecord(c, b[i], 1);
        if (f)
          return f.offset = at - first + i, f;
      }
      if (whole && writes) {
        for (uint32_t i = 0; i < 4; ++i)
          clearReaders(b[i]);
        uint32_t split = w.split;
        w = b[0];
        w.init = 0xf;
        freeSplits_.push_back(split);
      }
    }
    at += last - first;
  }
  return {};
}

void ShadowMemory::land(uint32_t offset, uint32_t bytes, uint32_t oldStamp, uint32_t who, uint32_t stamp,
                        bool keepPending) {
  for (uint32_t at = offset; at < offset + bytes; at += 4) {
    ShadowRecord &w = words_[at / 4];
    if (w.split || !(w.flags & PendingCopy) || w.writeStamp != oldStamp)
      continue;
    w.writer = uint16_t(who), w.writeStamp = stamp;
    if (!keepPending)
      w.flags = bytes == 16 ? WaitedCopy : 0;
  }
}

void ShadowMemory::markBarrier(uint32_t offset, bool isBarrier) {
  for (uint32_t at = offset / 4; at < offset / 4 + 2; ++at) {
    if (words_[at].split)
      freeSplits_.push_back(words_[at].split);
    clearReaders(words_[at]);
    words_[at] = {};
    words_[at].flags = isBarrier ? BarrierWord : 0;
  }
}

} // namespace tegula::sim
