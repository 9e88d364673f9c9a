/* Runs compiled test functions under qemu without a C library for the target: reads a request from standard input, calls
 * the function, writes its last operand to standard output. Linked by JitLibrary with a generated table of functions. */
typedef unsigned long u64;
typedef long i64;

typedef void (*ElementwiseFn)(const void *const *in, void *out, i64 n);
typedef void (*PointersFn)(void *a, void *b, void *c);
extern void *const testFunctions[];

static u64 sysCall(u64 number, u64 a, u64 b, u64 c) {
  register u64 x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

void *memcpy(void *to, const void *from, u64 n) {
  for (u64 i = 0; i < n; ++i)
    ((char *)to)[i] = ((const char *)from)[i];
  return to;
}
void *memset(void *to, int byte, u64 n) {
  for (u64 i = 0; i < n; ++i)
    ((char *)to)[i] = (char)byte;
  return to;
}

/* Exact: subtracts y times powers of two. */
double fmod(double x, double y) {
  union { double d; u64 u; } a = {x}, b = {y}, t;
  u64 sign = a.u >> 63 << 63, inf = 0x7FFul << 52;
  a.u &= ~0ul >> 1;
  b.u &= ~0ul >> 1;
  if (b.u == 0 || b.u > inf || a.u >= inf)
    return (x * y) / (x * y);
  while (a.d >= b.d) {
    t.d = b.d;
    while (t.d <= a.d / 2)
      t.d *= 2;
    a.d -= t.d;
  }
  a.u |= sign;
  return a.d;
}
float fmodf(float x, float y) { return (float)fmod(x, y); }

static char buffer[1 << 26] __attribute__((aligned(64)));

struct Request {
  u64 function, isElementwise, inputs, n; /* of elements */
  u64 bytes[4];                           /* of the inputs, then of the output */
};

void _start(void) {
  u64 have = 0, got;
  while ((got = sysCall(63, 0, (u64)(buffer + have), sizeof buffer - have)) > 0 && (i64)got > 0)
    have += got;
  struct Request *r = (struct Request *)buffer;
  char *p[4], *at = buffer + ((sizeof *r + 63) & ~63ul);
  for (u64 i = 0; i <= r->inputs; ++i) {
    p[i] = at;
    at += (r->bytes[i] + 63) & ~63ul;
  }
  if (r->isElementwise)
    ((ElementwiseFn)testFunctions[r->function])((const void *const *)p, p[r->inputs], (i64)r->n);
  else
    ((PointersFn)testFunctions[r->function])(p[0], p[1], p[2]);
  u64 left = r->bytes[r->inputs];
  for (char *q = p[r->inputs]; left;) {
    u64 wrote = sysCall(64, 1, (u64)q, left);
    q += wrote;
    left -= wrote;
  }
  sysCall(94, 0, 0, 0);
}
