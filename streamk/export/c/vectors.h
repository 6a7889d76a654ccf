
/* --- Trees and leaves ------------------------------------------------------------------------ */

/* MODEL_VECTOR stands before a loop that is to become a vector, of which GCC would make single
   numbers. */
#if defined(__GNUC__) && !defined(__clang__)
#define MODEL_VECTOR _Pragma("GCC unroll 1")
#define MODEL_APART __asm__ volatile("");
#else
#define MODEL_VECTOR
#endif

/* Where the processor can, and the compiler may, this is one instruction. */
static inline float model_fused(float a, float b, float c)
{
    return a * b + c;
}
