/* Kernels as the CPU target would emit them, written by hand: one for each thing the runtime has to get right. */
#include "abi/CpuAbi.h"

float fmaf(float, float, float);
void *memcpy(void *, const void *, __SIZE_TYPE__);

typedef struct { const float *x, *y; float *out; int32_t n, block; } AddArgs;

int32_t add(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  const AddArgs *a = args;
  for (int64_t p = begin; p < end; ++p)
    for (int64_t i = p * a->block; i < (p + 1) * a->block && i < a->n; ++i) a->out[i] = a->x[i] + a->y[i];
  return TEGULA_FAULT_NONE;
}

/* Counts in `counts[p]` how often program p ran. */
int32_t count(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int32_t *counts = *(int32_t *const *)args;
  for (int64_t p = begin; p < end; ++p) __atomic_fetch_add(&counts[p], 1, __ATOMIC_RELAXED);
  return TEGULA_FAULT_NONE;
}

int32_t empty(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) { return 0; }

/* Each program waits for the one before it. */
int32_t chain(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int32_t *done = *(int32_t *const *)args;
  for (int64_t p = begin; p < end; ++p) {
    while (p > 0 && !__atomic_load_n(&done[p - 1], __ATOMIC_ACQUIRE))
      if (*launch->cancel) return TEGULA_FAULT_CANCELLED;
    __atomic_store_n(&done[p], 1, __ATOMIC_RELEASE);
  }
  return TEGULA_FAULT_NONE;
}

/* Every program arrives and waits for all others, as a loop of generated code waits. */
int32_t meet(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int64_t *arrived = *(int64_t *const *)args, all = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  for (int64_t p = begin; p < end; ++p) {
    if (*launch->cancel) return TEGULA_FAULT_CANCELLED;
    __atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
    for (int64_t round = 1; __atomic_load_n(arrived, __ATOMIC_ACQUIRE) < all; ++round) {
      if (round % 256 == 0) launch->wait(launch, round / 256);
      if (*launch->cancel) {
        launch->stopped(launch, 0, (int32_t)p, 0, 0);
        return TEGULA_FAULT_CANCELLED;
      }
    }
  }
  return TEGULA_FAULT_NONE;
}

typedef struct { int64_t begun, least; } Begun;

/* No program ends; once `least` of them have begun none makes progress, and until then all do. */
int32_t stuck(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  Begun *b = *(Begun *const *)args;
  __atomic_fetch_add(&b->begun, 1, __ATOMIC_ACQ_REL);
  while (!*launch->cancel) launch->wait(launch, __atomic_load_n(&b->begun, __ATOMIC_ACQUIRE) < b->least ? 1 : 2);
  launch->stopped(launch, 0, (int32_t)begin, 0, 0);
  return TEGULA_FAULT_CANCELLED;
}

/* Needs 256 KiB of stack. */
int32_t deep(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int32_t *counts = *(int32_t *const *)args;
  volatile char frame[256 << 10];
  for (int64_t i = 0; i < (int64_t)sizeof frame; i += 512) frame[i] = 1;
  for (int64_t p = begin; p < end; ++p) counts[p] += frame[p * 512];
  return TEGULA_FAULT_NONE;
}

int32_t forever(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  while (!*launch->cancel) {}
  return TEGULA_FAULT_CANCELLED;
}

typedef struct { uint64_t (*self)(void), caller; int64_t given; } Shared;

/* The caller's programs take 0.1 ms each; another thread's last until the launch is cancelled. Counts the programs that are given out. */
int32_t busy(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  Shared *s = *(Shared *const *)args;
  __atomic_fetch_add(&s->given, end - begin, __ATOMIC_RELAXED);
  for (int64_t p = begin; p < end; ++p)
    for (int64_t start = launch->clock(); s->self() != s->caller || launch->clock() - start < 100000;)
      if (*launch->cancel) return TEGULA_FAULT_CANCELLED;
  return TEGULA_FAULT_NONE;
}

/* Adds 1 to a counter for each program, by plain reads and writes if the launch is alone, and counts calls that were alone (args: {counter, calls}). */
int32_t updates(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int64_t *counter = ((int64_t *const *)args)[0], *calls = ((int64_t *const *)args)[1];
  if (launch->flags & TEGULA_LAUNCH_ATOMICS) launch->atomics(launch, 1);
  const int alone = launch->flags & TEGULA_LAUNCH_ALONE;
  if (alone) __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
  for (int64_t p = begin; p < end; ++p) {
    if (!alone) {
      __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
      continue;
    }
    int64_t was = *(volatile int64_t *)counter;
    for (int i = 0; i < 20; ++i) __asm__ volatile("" ::: "memory");
    *(volatile int64_t *)counter = was + 1;
  }
  return 0;
}

/* Program 37 faults at site 1. */
int32_t faulty(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  for (int64_t p = begin; p < end; ++p) {
    if (*launch->cancel) return TEGULA_FAULT_CANCELLED;
    if (p != 37) continue;
    TegulaCpuFault *f = launch->fault;
    if (!__atomic_exchange_n(&f->claimed, 1, __ATOMIC_ACQ_REL)) {
      f->code = TEGULA_FAULT_BOUNDS;
      f->site = 1;
      f->pid[0] = 37, f->pid[1] = 0, f->pid[2] = 0;
      f->index = -4;
      f->extent = 400;
    }
    return TEGULA_FAULT_BOUNDS;
  }
  return TEGULA_FAULT_NONE;
}

int32_t printer(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  for (int64_t p = begin; p < end; ++p) {
    int32_t pid[3] = {(int32_t)p, 0, 0};
    int32_t values[4] = {(int32_t)p, -1, 2, 3};
    launch->print(launch, 0, 0, pid, values, 4);
  }
  return TEGULA_FAULT_NONE;
}

/* Fills its scratch, so that sharing it with another thread would show. */
int32_t scratchy(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int32_t *bad = *(int32_t *const *)args;
  int64_t *s = scratch;
  if ((uintptr_t)scratch % 64) __atomic_fetch_add(bad, 1, __ATOMIC_RELAXED);
  for (int64_t p = begin; p < end; ++p) {
    for (int i = 0; i < 1024; ++i) s[i] = p + i;
    for (int i = 0; i < 1024; ++i)
      if (s[i] != p + i) __atomic_fetch_add(bad, 1, __ATOMIC_RELAXED);
  }
  return TEGULA_FAULT_NONE;
}

/* Scratch that begins with the launch's number is as this launch has left it: counts the calls that find it so, those that find what another one has left, and all
 * of them. The number that is left is that of a later launch by as much as the caller says. */
int32_t keeper(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  int64_t *seen = *(int64_t *const *)args;
  uint64_t *s = scratch;
  if (launch->number == 0) __atomic_fetch_add(&seen[1], 1, __ATOMIC_RELAXED);
  if (s[0] == launch->number) __atomic_fetch_add(&seen[s[1] == 3 * launch->number ? 0 : 1], 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&seen[3], 1, __ATOMIC_RELAXED);
  s[0] = launch->number + (uint64_t)seen[2], s[1] = 3 * launch->number;
  return TEGULA_FAULT_NONE;
}

/* Constants, mutable data, zeroed data, a table of pointers, calls within the object and out of it. */
static const int32_t primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
static int32_t mutableData = 40;
static int32_t zeroed[16];
static __attribute__((noinline)) int32_t twice(int32_t v) { return 2 * v; }
static __attribute__((noinline)) int32_t thrice(int32_t v) { return 3 * v; }
static int32_t (*volatile const table[2])(int32_t) = {twice, thrice};
int32_t visible = 7;

int32_t sections(const void *args, const TegulaCpuLaunch *launch, int64_t begin, int64_t end, void *scratch) {
  double *out = *(double *const *)args;
  volatile int64_t zero = begin;
  zeroed[zero + 3] += 1;
  mutableData += 2;
  out[0] = primes[zero + 4];
  out[1] = mutableData;
  out[2] = zeroed[zero + 3];
  out[3] = table[zero](21) + table[zero + 1](100);
  out[4] = fmaf((float)(zero + 2), 3.0f, 0.5f);
  out[5] = visible;
  char copy[64];
  volatile __SIZE_TYPE__ n = sizeof primes;
  memcpy(copy, primes, n);
  out[6] = ((int32_t *)(void *)copy)[7];
  return TEGULA_FAULT_NONE;
}
