#ifndef CORRLOOM_SIM_H
#define CORRLOOM_SIM_H

#include <stddef.h>
#include <stdint.h>

/* What the simulated devices counted and found: functions that libcorrloom_cuda_sim.so exports next to the Driver API.
 *
 * A real libcuda.so.1 has none of them, so resolving `corrloom_sim_launch_count` tells whether a driver is simulated.
 * They may be called from any thread after cuInit, and know the launches that have ended: synchronise first. A device
 * is named by its ordinal; a call with one that does not exist returns 0. */

#ifdef __cplusplus
extern "C" {
#endif

/** What launches did, as a profiler would count it: sums over the grid. */
typedef struct corrloom_sim_counters {
  uint64_t warp_instructions;   /**< instructions issued, one a warp */
  uint64_t thread_instructions; /**< active lanes summed over them; 32 * warp_instructions without divergence */
  uint64_t divergent_branches;  /**< conditional branches whose lanes went both ways */
  uint64_t branches;
  /* Warp instructions by class. */
  uint64_t fp16, fp32, fp64, integer, conversion, special_function, control, move;
  uint64_t load_store, barrier, shuffle_vote, atomic, tensor_core, async_copy;
  /* Floating-point operations of threads (fma counts 2), and of tensor cores (a multiply-add counts 2). */
  uint64_t flops_fp16, flops_fp32, flops_fp64;
  uint64_t tensor_flops;
  /* Global memory: a request is one warp instruction, a sector 32 bytes. */
  uint64_t global_load_requests, global_load_sectors, global_load_bytes;
  uint64_t global_store_requests, global_store_sectors, global_store_bytes;
  uint64_t local_load_requests, local_store_requests;
  /* Shared memory: a wavefront serves 32 banks of 4 bytes; conflicts are the wavefronts above the least possible. */
  uint64_t shared_load_requests, shared_load_wavefronts;
  uint64_t shared_store_requests, shared_store_wavefronts;
  uint64_t shared_bank_conflicts;
  uint64_t global_atomics, shared_atomics; /**< of threads */
  uint64_t async_bytes;                    /**< moved by cp.async, bulk and tensor copies */
  uint64_t blocks, warps, threads;
} corrloom_sim_counters;

/** One launch that has ended. Its name is cut off to fit. */
typedef struct corrloom_sim_launch {
  uint64_t number; /**< counts the launches of the device from 1 */
  char kernel[256];
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;                      /**< of a block, static and dynamic */
  uint32_t registers;                         /**< of a thread: an estimate unless `assembled` is set */
  int32_t resident_blocks;                    /**< of one multiprocessor, by the limits of the architecture */
  int32_t resident_warps, max_resident_warps; /**< their quotient is the theoretical occupancy */
  int32_t error;                              /**< the CUresult the launch ended with */
  double host_seconds;                        /**< the simulator took; says nothing about a real device */
  /* Estimates, not measurements: the least time the architecture's largest chip needs to move the global sectors at
   * its full memory bandwidth, and to issue the instructions at one a clock and scheduler. A kernel cannot beat the
   * larger one of the two unless its data stay in a cache. */
  double estimate_memory_seconds, estimate_issue_seconds;
  corrloom_sim_counters counters;
  int32_t assembled; /**< 1 when ptxas gave the registers and spills (CORRLOOM_SIM_PTXAS), 0 when it was not asked */
  uint32_t spill_store_bytes, spill_load_bytes; /**< of a thread; 0 unless `assembled` is set */
} corrloom_sim_launch;

/** One thing the sanitizer found. Texts are cut off to fit. */
typedef struct corrloom_sim_finding {
  char kind[64]; /**< for example `race` or `out of bounds` */
  char kernel[256];
  char instruction[256];
  char message[512]; /**< one sentence */
  char other[512];   /**< the second party of a race; empty otherwise */
  int32_t ptx_line;  /**< from 1, in the text the module was loaded from */
  uint32_t block[3]; /**< coordinates from 0 */
  uint32_t thread[3];
  uint64_t address;
  uint32_t access_bytes;
  uint64_t occurrences; /**< of this kind at this line in the launch */
} corrloom_sim_finding;

/** Number of launches that have ended since cuInit. */
uint64_t corrloom_sim_launch_count(int device);
/** The launch `back` before the last one; the last 1024 are kept. Returns 1, or 0 when there is none. */
int corrloom_sim_get_launch(int device, uint64_t back, corrloom_sim_launch* launch);
/** Sums over the launches of a kernel, or of all kernels for a null name. Returns the number of launches summed. */
uint64_t corrloom_sim_get_total(int device, const char* kernel, corrloom_sim_counters* counters);
/** Number of findings kept: the first 1024. */
uint64_t corrloom_sim_finding_count(int device);
/** A finding, the oldest first. Returns 1, or 0 when there is none. */
int corrloom_sim_get_finding(int device, uint64_t index, corrloom_sim_finding* finding);
/** All findings as text. Writes at most `bytes` bytes with a terminating zero; returns the length of the whole. */
size_t corrloom_sim_findings_text(int device, char* buffer, size_t bytes);
/** Launches, totals of each kernel and findings as JSON; as above. */
size_t corrloom_sim_json(int device, char* buffer, size_t bytes);
/** Forgets launches, totals and findings of the device; the count of launches goes on. */
void corrloom_sim_clear(int device);
/** Whether findings and refused launches are printed on stderr as they come (1, the default) or only kept (0). */
void corrloom_sim_print_findings(int print);

#ifdef __cplusplus
}
#endif

#endif /* CORRLOOM_SIM_H */
