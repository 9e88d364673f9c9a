/* The contract between GPU code compiled for the simulator and the simulator's machine model (src/sim). Plain C.
 *
 * The NVIDIA target lowers a kernel once. Every operation without a plain LLVM equivalent, and every access to memory
 * that GPU threads share, goes through its instruction layer (targets/nvidia/instr/Instr.h), which prints a PTX
 * instruction for a GPU and a call of one function below for the simulator. One fiber runs one GPU thread; a function
 * may switch to another fiber (barriers, shuffles, waits), so generated code holds no lock and no thread-local across
 * a call.
 *
 * Conventions
 *   - `t` is the calling GPU thread. `site` is an index into the kernel's table of sites: where in the kernel source.
 *   - Registers are passed through memory: `out`, `in`, `d`, ... point to arrays of 32-bit registers on the caller's
 *     stack; 16- and 8-bit elements are packed, lowest first.
 *   - Shared addresses are 32-bit as on hardware: the CTA's rank in its cluster << 24 | offset; the first user byte
 *     is at offset 0x400. Global addresses are host addresses.
 *   - A fault (a race, an access outside all buffers, a deadlock ...) is recorded and ends the launch: the function
 *     does not return to the faulting fiber.
 *   - A predicate `p` of 0 means that this thread does nothing (but still takes part in a warp's or CTA's
 *     instruction). Semantics are those of the PTX ISA 8.x section named at each function; layouts of fragments and
 *     descriptors: the same section and docs/hopper.md. */
#ifndef TEGULA_ABI_SIMABI_H
#define TEGULA_ABI_SIMABI_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TEGULA_SIM_ABI_VERSION 3

typedef struct TegulaSimThread TegulaSimThread;

/* Entry point of a kernel, called once per GPU thread. `args`: packed arguments as for TegulaCpuEntry. */
typedef void (*TegulaSimEntry)(TegulaSimThread *t, const void *args);

/* Special registers. */
enum {
  TEGULA_SREG_TID = 0,            /* %tid.x; blocks are one-dimensional */
  TEGULA_SREG_CTAID_X = 1, TEGULA_SREG_CTAID_Y = 2, TEGULA_SREG_CTAID_Z = 3,
  TEGULA_SREG_NCTAID_X = 4, TEGULA_SREG_NCTAID_Y = 5, TEGULA_SREG_NCTAID_Z = 6,
  TEGULA_SREG_CLUSTER_CTARANK = 7, TEGULA_SREG_CLUSTER_NCTARANK = 8,
  TEGULA_SREG_CLUSTERID_X = 9, TEGULA_SREG_NCLUSTERID_X = 10,
  TEGULA_SREG_CLOCK = 11          /* a monotonic counter */
};
int32_t tegula_sim_sreg(TegulaSimThread *t, int32_t which);
/* %globaltimer: the host's clock in nanoseconds. */
int64_t tegula_sim_globaltimer(TegulaSimThread *t);

/* Memory (ld, st). `bytes`: 1, 2, 4, 8 or 16, naturally aligned else a fault. Loads with p = 0 leave `out` alone.
 * Shared addresses may name another CTA of the cluster (ld/st.shared::cluster). */
void tegula_sim_ld_global(TegulaSimThread *t, int32_t site, uint64_t addr, int32_t bytes, int32_t p, void *out);
void tegula_sim_st_global(TegulaSimThread *t, int32_t site, uint64_t addr, int32_t bytes, int32_t p, const void *in);
void tegula_sim_ld_shared(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t bytes, int32_t p, void *out);
void tegula_sim_st_shared(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t bytes, int32_t p, const void *in);
uint32_t tegula_sim_mapa(TegulaSimThread *t, uint32_t addr, int32_t rank);
/* st.async: 4, 8 or 16 bytes to shared memory of a CTA of the cluster, whose mbarrier `bar` counts them. */
void tegula_sim_st_async(TegulaSimThread *t, int32_t site, uint32_t addr, const void *in, int32_t bytes, uint32_t bar,
                         int32_t p);

/* Atomics (atom, red). space 0: global, 1: shared. `type`: TEGULA_SIM_*; `count` elements of that type in a row
 * (vector forms; else 1). op: TEGULA_ATOM_*. Each element is updated atomically; `old` may be null (red). LOAD and
 * STORE leave alone memory and `old`; a LOAD's `in` is not read. TEGULA_SIM_I8 is for these two only. For CAS
 * `in` holds compare then value. sem: 0 relaxed, 1 acquire, 2 release, 3 acq_rel. scope: 0 cta, 1 cluster, 2 gpu, 3
 * sys. */
enum {
  TEGULA_SIM_I32,
  TEGULA_SIM_I64,
  TEGULA_SIM_F16,
  TEGULA_SIM_BF16,
  TEGULA_SIM_F32,
  TEGULA_SIM_F64,
  TEGULA_SIM_I16,
  TEGULA_SIM_I8
};
enum { TEGULA_ATOM_ADD, TEGULA_ATOM_FADD, TEGULA_ATOM_SMIN, TEGULA_ATOM_SMAX, TEGULA_ATOM_UMIN, TEGULA_ATOM_UMAX,
       TEGULA_ATOM_AND, TEGULA_ATOM_OR, TEGULA_ATOM_XOR, TEGULA_ATOM_XCHG, TEGULA_ATOM_CAS, TEGULA_ATOM_LOAD,
       TEGULA_ATOM_STORE };
void tegula_sim_atom(TegulaSimThread *t, int32_t site, int32_t space, uint64_t addr, int32_t type, int32_t count,
                     int32_t op, int32_t sem, int32_t scope, int32_t p, const void *in, void *old);

/* Warp instructions (shfl.sync, vote.sync, redux, elect.sync); all threads in `mask` must execute them. */
enum { TEGULA_SHFL_IDX, TEGULA_SHFL_BFLY, TEGULA_SHFL_UP, TEGULA_SHFL_DOWN };
uint32_t tegula_sim_shfl(TegulaSimThread *t, int32_t site, int32_t mode, uint32_t mask, uint32_t value, int32_t lane);
uint32_t tegula_sim_ballot(TegulaSimThread *t, int32_t site, uint32_t mask, int32_t p);
int32_t tegula_sim_elect(TegulaSimThread *t, int32_t site, uint32_t mask);
void tegula_sim_syncwarp(TegulaSimThread *t, int32_t site, uint32_t mask);

/* Barriers (bar.sync / bar.arrive with an id 0..15 and a thread count; barrier.cluster). `orAll`: bar.red.or/popc is
 * not used. A count of 0 means all threads of the CTA; with id 0 that is __syncthreads. */
void tegula_sim_bar_sync(TegulaSimThread *t, int32_t site, int32_t id, int32_t count);
void tegula_sim_bar_arrive(TegulaSimThread *t, int32_t site, int32_t id, int32_t count);
void tegula_sim_cluster_arrive(TegulaSimThread *t, int32_t site, int32_t relaxed);
void tegula_sim_cluster_wait(TegulaSimThread *t, int32_t site);
/* fence.proxy.async (generic writes of this thread become visible to wgmma and bulk copies after the next barrier). */
void tegula_sim_fence_proxy_async(TegulaSimThread *t, int32_t site);
/* fence.mbarrier_init.release.cluster; membar/fence with scope as above. */
void tegula_sim_fence_mbarrier_init(TegulaSimThread *t, int32_t site);
void tegula_sim_membar(TegulaSimThread *t, int32_t site, int32_t scope);

/* Matrix moves (ldmatrix / stmatrix .x1 .x2 .x4 [.trans], b16): `n` matrices; row addresses come from lanes 0..8n-1. */
void tegula_sim_ldmatrix(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t n, int32_t trans, uint32_t *out);
void tegula_sim_stmatrix(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t n, int32_t trans, const uint32_t *in);

/* Element types of matrix instructions. */
enum { TEGULA_MMA_F16, TEGULA_MMA_BF16, TEGULA_MMA_TF32, TEGULA_MMA_E4M3, TEGULA_MMA_E5M2, TEGULA_MMA_S8, TEGULA_MMA_U8,
       TEGULA_MMA_F64, TEGULA_MMA_F32, TEGULA_MMA_S32 };
/* mma.sync.m16n8kK.row.col: K from the types (16 bytes or 32 bytes of A per row: `k` says elements). d = a*b + c.
 * f64: m8n8k4. Register counts follow from the fragment tables. */
void tegula_sim_mma(TegulaSimThread *t, int32_t site, int32_t k, int32_t dType, int32_t aType, int32_t bType,
                    const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d);

/* wgmma.mma_async m64nNkK (K is 32 bytes). `aRegs` null: A from `aDesc`. transA/transB: MN-major operand.
 * `d` holds the accumulator registers in and out; until a wait covers this instruction the registers hold marker values
 * that only another wgmma on the same accumulator, or the wait, may consume. */
void tegula_sim_wgmma(TegulaSimThread *t, int32_t site, int32_t n, int32_t dType, int32_t aType, int32_t bType,
                      const uint32_t *aRegs, uint64_t aDesc, uint64_t bDesc, int32_t scaleD, int32_t negA, int32_t negB,
                      int32_t transA, int32_t transB, uint32_t *d);
void tegula_sim_wgmma_fence(TegulaSimThread *t, int32_t site);
void tegula_sim_wgmma_commit(TegulaSimThread *t, int32_t site);
/* wait_group n; `d` (count registers) are the accumulators that become readable: markers are replaced by values. */
void tegula_sim_wgmma_wait(TegulaSimThread *t, int32_t site, int32_t n, uint32_t *d, int32_t count);

/* cp.async (4, 8, 16 bytes; reads `srcBytes` <= bytes and fills the rest with zeros), groups, and
 * cp.async.mbarrier.arrive.noinc. */
void tegula_sim_cp_async(TegulaSimThread *t, int32_t site, uint32_t dst, uint64_t src, int32_t bytes, int32_t srcBytes,
                         int32_t p);
void tegula_sim_cp_async_commit(TegulaSimThread *t, int32_t site);
void tegula_sim_cp_async_wait(TegulaSimThread *t, int32_t site, int32_t n);
void tegula_sim_cp_async_mbar_arrive(TegulaSimThread *t, int32_t site, uint32_t bar);

/* mbarrier (64-bit object in shared memory). `count` pending arrivals; arrive may name another CTA's barrier. */
void tegula_sim_mbar_init(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t count);
void tegula_sim_mbar_inval(TegulaSimThread *t, int32_t site, uint32_t bar);
void tegula_sim_mbar_arrive(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t count, int32_t p);
/* arrive.expect_tx: adds `bytes` to the expected transactions, then arrives once. */
void tegula_sim_mbar_arrive_expect(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t bytes, int32_t p);
/* Returns when the phase with this parity has completed (a loop of try_wait.parity). */
void tegula_sim_mbar_wait(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t parity);

/* Bulk copies. Tensor maps are the 128-byte objects that cuTensorMapEncodeTiled makes; the simulator's own encoder
 * (sim/TensorMap.h) fills the same fields in a format of its own. `coord`: rank values, innermost first. */
void tegula_sim_tma_load(TegulaSimThread *t, int32_t site, uint32_t dst, uint64_t map, int32_t rank,
                         const int32_t *coord, uint32_t bar, int32_t multicastMask, int32_t p);
void tegula_sim_tma_store(TegulaSimThread *t, int32_t site, uint64_t map, int32_t rank, const int32_t *coord,
                          uint32_t src, int32_t p);
/* op: TEGULA_ATOM_*. */
void tegula_sim_tma_reduce(TegulaSimThread *t, int32_t site, uint64_t map, int32_t rank, const int32_t *coord,
                           uint32_t src, int32_t op, int32_t p);
void tegula_sim_bulk_load(TegulaSimThread *t, int32_t site, uint32_t dst, uint64_t src, int32_t bytes, uint32_t bar,
                          int32_t p);
void tegula_sim_bulk_store(TegulaSimThread *t, int32_t site, uint64_t dst, uint32_t src, int32_t bytes, int32_t p);
void tegula_sim_bulk_commit(TegulaSimThread *t, int32_t site);
void tegula_sim_bulk_wait(TegulaSimThread *t, int32_t site, int32_t n, int32_t readOnly);

/* setmaxnreg.inc/dec (dec < 0 never; `inc` 1 or 0); griddepcontrol: 0 wait, 1 launch_dependents. */
void tegula_sim_setmaxnreg(TegulaSimThread *t, int32_t site, int32_t regs, int32_t inc);
void tegula_sim_griddep(TegulaSimThread *t, int32_t site, int32_t what);
/* A failed device_assert: `site` has the message; ends the launch. One element of device_print: `operand` of the
 * print site, row-major element number `index`, raw bits. */
void tegula_sim_assert_fail(TegulaSimThread *t, int32_t site);
void tegula_sim_print(TegulaSimThread *t, int32_t site, int32_t operand, int64_t index, uint64_t bits);
/* Called at loop back edges: yields to other fibers regularly (spin locks), and detects cancellation and lack of
 * progress. */
void tegula_sim_backedge(TegulaSimThread *t, int32_t site);

#ifdef __cplusplus
}
#endif
#endif
