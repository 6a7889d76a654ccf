/* What lets the same text be a CUDA kernel and plain C for the host.

   A kernel is a sequence of phases. In a phase every thread of the block runs the statement that
   follows PHASE(t), t being its number, and a phase ends with a barrier, so one forgotten is no
   fault that can be made. On the host a phase is a loop over the threads, in either order: no
   thread may read what another one writes in the same phase, and a test runs both orders. What a
   thread keeps from phase to phase is declared by REGISTERS and reached by OWN; what a block
   shares, by SHARED. Both begin as NaN on the host. Nothing may leave a phase early.

   Macros from outside: REAL_IS_DOUBLE, the type of numbers in memory; PHASE_IS_DOUBLE, that of
   phases; HADAMARD, whether the basis is one. Contraction is off in both compilers, so that
   nothing but the library's functions rounds differently: what is to be fused is `fused`. */

#define THREADS 256
#define CHUNK 64
#define LANES 16

typedef long long whole;
typedef unsigned long long word64;
typedef unsigned int word32;

#if REAL_IS_DOUBLE
typedef double real;
#else
typedef float real;
#endif
#if PHASE_IS_DOUBLE
typedef double phase;
#else
typedef float phase;
#endif

#ifdef __CUDACC__

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
#define INLINE static __device__ __forceinline__
#define PHASE(t) \
    for (int t = (int)threadIdx.x, t##_on = 1; t##_on; __syncthreads(), t##_on = 0)
#define SHARED(type, name, count) __shared__ type name[count]
#define REGISTERS(type, name, count) type name[count]
#define OWN(name, t) name
#define BLOCK_X ((whole)blockIdx.x)
#define BLOCK_Y ((whole)blockIdx.y)
#define BLOCK_Z ((whole)blockIdx.z)
#define ALIGNED __align__(16)
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(count) _Pragma(TEXT(unroll count))
#define TEXT(words) #words

#else

#include <math.h>
#include <string.h>

static int block_of_grid[3], order_of_threads;

/* Say which block runs next, and whether its threads do so from the last to the first. */
void at_block(int x, int y, int z, int backwards)
{
    block_of_grid[0] = x;
    block_of_grid[1] = y;
    block_of_grid[2] = z;
    order_of_threads = backwards ? THREADS - 1 : 0;
}

#define KERNEL void
#define INLINE static inline
#define PHASE(t) \
    for (int t##_at = 0, t = order_of_threads; t##_at < THREADS; t = ++t##_at ^ order_of_threads)
#define SHARED(type, name, count) \
    static type name[count];      \
    memset(name, 0xFF, sizeof name)
#define REGISTERS(type, name, count)     \
    static type name##_of[THREADS][count]; \
    memset(name##_of, 0xFF, sizeof name##_of)
#define OWN(name, t) name##_of[t]
#define BLOCK_X ((whole)block_of_grid[0])
#define BLOCK_Y ((whole)block_of_grid[1])
#define BLOCK_Z ((whole)block_of_grid[2])
#define ALIGNED __attribute__((aligned(16)))
#define UNROLL
#define UNROLL_BY(count)

#endif

/* Four neighbours, which one instruction loads from shared memory. */
typedef struct ALIGNED {
    phase x[4];
} quad;

INLINE phase fused(phase a, phase b, phase c)
{
#if PHASE_IS_DOUBLE
    return fma(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

INLINE real fused_real(real a, real b, real c)
{
#if REAL_IS_DOUBLE
    return fma(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

INLINE whole lesser(whole a, whole b)
{
    return a < b ? a : b;
}
