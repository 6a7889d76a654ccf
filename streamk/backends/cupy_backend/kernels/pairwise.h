/* Kernels between points, and their product with vectors, without storing the kernels.

   A block has a tile of 64 rows and 64 centers; a thread, four of each, whose sums over the columns
   stay in registers while the columns pass by, in their order. Distances are sums of differences:
   a matrix product would be faster, but cancels. */

#define SIDE 64
#define DEPTH 8
/* A column of a stage with a quad of padding, and numbers of each side that a thread brings. */
#define STRIDE (SIDE / 4 + 1)
#define STAGE (2 * DEPTH * STRIDE)
#define STAGED (DEPTH * SIDE / THREADS)
typedef char two_stages_fit_the_tile[2 * STAGE <= SIDE * (SIDE + 1) / 4 ? 1 : -1];
/* Centers whose products one block sums up: a fixed order, whatever the number of rows. */
#define CENTERS 1024
/* Outputs that a block takes on at once. */
#define OUTPUTS 16
#define SLOTS (SIDE * OUTPUTS / THREADS)

#define GAUSSIAN 0
#define LAPLACIAN 1
#define MATERN 2
#define CAUCHY 3
#define RATIONAL_QUADRATIC 4
#define LINEAR 5
#define NTK 6
#define POWER_EXPONENTIAL 7

#if REAL_IS_DOUBLE
#define EXP exp
#define SQRT sqrt
#define ABS fabs
#define SIN sin
#define ASIN asin
#define ATAN2 atan2
#else
#define EXP expf
#define SQRT sqrtf
#define ABS fabsf
#define SIN sinf
#define ASIN asinf
#define ATAN2 atan2f
#endif

/* What one column adds to a pair's sum (multiplies it with, for the product Cauchy kernel). Each
   kernel has a loop of its own: a choice within it would take as long as the arithmetic. */
#define WITH_COLUMNS(added)                                                          \
    UNROLL for (int j = 0; j < DEPTH; j++)                                           \
    {                                                                                \
        const quad a = left[j * STRIDE], b = right[j * STRIDE];                      \
        UNROLL for (int i = 0; i < 16; i++)                                          \
        {                                                                            \
            const real x = a.x[i / 4], y = b.x[i % 4];                               \
            sums[i] = added;                                                         \
        }                                                                            \
    }

INLINE void with_columns(int t, whole code, real factor, const quad *stage, real *sums)
{
    const quad *left = stage + t / 16, *right = stage + DEPTH * STRIDE + t % 16;
    if (code == LINEAR) {
        WITH_COLUMNS(fused_real(x, y, sums[i]))
    } else if (code == LAPLACIAN) {
        WITH_COLUMNS(sums[i] + ABS(x - y))
    } else if (code == POWER_EXPONENTIAL) {
        WITH_COLUMNS(sums[i] + SQRT(ABS(x - y)))
    } else if (code == CAUCHY) {
        WITH_COLUMNS(sums[i] * fused_real((x - y) * (x - y), factor, (real)1))
    } else {
        WITH_COLUMNS(fused_real(x - y, x - y, sums[i]))
    }
}

/* The neural tangent kernel of points on the unit sphere, from sin(theta / 2)^2: what it and the
   cosine lack of their values at angle 0, layer by layer. */
INLINE real neural_tangent(real half, real depth)
{
    const real pi = (real)3.14159265358979323846;
    const real part = half > (real)1 ? (real)1 : half;
    real theta = (real)2 * ATAN2(SQRT(part), SQRT((real)1 - part));
    real below = (real)2 * part, missing = below;
    for (real layer = (real)1; layer <= depth; layer += (real)1) {
        below -= (SIN(theta) - theta * ((real)1 - below)) / pi;
        missing += (layer - missing) * theta / pi + below;
        theta = (real)2 * ASIN(SQRT((real)0.5 * below));
    }
    return (real)1 - missing / (depth + (real)1);
}

/* The kernel of a pair's sum, but for those of `tile_of`; `factor` has the bandwidth in it, see `factor` in Python. */
INLINE real kernel_of(whole code, real parameter, real factor, real sum)
{
    if (code == LINEAR)
        return sum;
    if (code == CAUCHY)
        return (real)1 / sum;
    if (code == NTK)
        return neural_tangent(factor * sum, parameter);
    if (code == RATIONAL_QUADRATIC) {
        /* alpha is a multiple of a half: a whole power of the root. */
        real k = (real)1, root = (real)1 / SQRT((real)1 + factor * sum);
        for (int exponent = (int)((real)2 * parameter + (real)0.5); exponent; exponent /= 2) {
            if (exponent % 2)
                k *= root;
            root *= root;
        }
        return k;
    } else {
        const real r = SQRT(factor * sum), k = EXP(-r);
        /* Where the kernel is 0 the polynomial may be infinite. */
        if (!(k > (real)0))
            return k;
        if (parameter > (real)2)
            return k * ((real)1 + r + r * r / (real)3);
        return k * ((real)1 + r);
    }
}

/* Read a thread's numbers of a stage, of which so many columns are left. What is beyond the last
   one is 0 on both sides, and then adds nothing; behind the last row and center these are read
   again, for kernels that no one asks for. */
INLINE void ahead(int t, const real **from, int columns, real *next)
{
    if (columns >= DEPTH) {
        UNROLL for (int q = 0; q < 2 * STAGED; q++) next[q] = *from[q];
    } else {
        UNROLL for (int q = 0; q < 2 * STAGED; q++) next[q] =
            t % DEPTH < columns ? *from[q] : (real)0;
    }
    UNROLL for (int q = 0; q < 2 * STAGED; q++) from[q] += DEPTH;
}

INLINE void set_down(int t, const real *next, quad *stage)
{
    UNROLL for (int q = 0; q < STAGED; q++)
    {
        const int r = t / DEPTH + q * (THREADS / DEPTH);
        ((real *)(stage + t % DEPTH * STRIDE))[r] = next[q];
        ((real *)(stage + (DEPTH + t % DEPTH) * STRIDE))[r] = next[STAGED + q];
    }
}

/* The kernels of the rows from row0 and the centers from c0 on. While the columns of a stage are
   worked with, those of the next one are set down, in the other half of what will be the kernels,
   and those after that are on their way. */
INLINE void tile_of(whole code, real parameter, real factor, const real *X, whole n, const real *Y,
                    whole m, whole d, whole row0, whole c0, real *K)
{
    REGISTERS(real, sums, 16);
    REGISTERS(real, next, 2 * STAGED);
    REGISTERS(const real *, from, 2 * STAGED);
    const int columns = (int)d;
    quad *stages = (quad *)K;
    PHASE(t) {
        UNROLL for (int i = 0; i < 16; i++)
            OWN(sums, t)[i] = code == CAUCHY ? (real)1 : (real)0;
        UNROLL for (int q = 0; q < STAGED; q++)
        {
            const whole r = t / DEPTH + q * (THREADS / DEPTH);
            OWN(from, t)[q] = X + lesser(row0 + r, n - 1) * d + t % DEPTH;
            OWN(from, t)[STAGED + q] = Y + lesser(c0 + r, m - 1) * d + t % DEPTH;
        }
        ahead(t, OWN(from, t), columns, OWN(next, t));
        set_down(t, OWN(next, t), stages);
        ahead(t, OWN(from, t), columns - DEPTH, OWN(next, t));
    }
    for (int left = columns; left > 0; left -= 2 * DEPTH) {
        PHASE(t) {
            set_down(t, OWN(next, t), stages + STAGE);
            ahead(t, OWN(from, t), left - 2 * DEPTH, OWN(next, t));
            with_columns(t, code, factor, stages, OWN(sums, t));
        }
        if (left > DEPTH) {
            PHASE(t) {
                set_down(t, OWN(next, t), stages);
                ahead(t, OWN(from, t), left - 3 * DEPTH, OWN(next, t));
                with_columns(t, code, factor, stages + STAGE, OWN(sums, t));
            }
        }
    }
    PHASE(t) {
        /* The usual ones by themselves: what tells kernels apart takes as long as they do. */
        if (code == GAUSSIAN || code == LAPLACIAN || code == POWER_EXPONENTIAL) {
            UNROLL for (int i = 0; i < 16; i++)
                OWN(sums, t)[i] = EXP(-factor * OWN(sums, t)[i]);
        } else if (code == MATERN && parameter < (real)1) {
            UNROLL for (int i = 0; i < 16; i++)
                OWN(sums, t)[i] = EXP(-SQRT(factor * OWN(sums, t)[i]));
        } else {
            UNROLL for (int i = 0; i < 16; i++)
                OWN(sums, t)[i] = kernel_of(code, parameter, factor, OWN(sums, t)[i]);
        }
        UNROLL for (int i = 0; i < 16; i++)
            K[(4 * (t / 16) + i / 4) * (SIDE + 1) + 4 * (t % 16) + i % 4] = OWN(sums, t)[i];
    }
}

/* Blocks: (rows, centers). */
KERNEL pairwise(whole code, double parameter, double factor, const real *__restrict__ X, whole n,
                const real *__restrict__ Y, whole m, whole d, real *__restrict__ out)
{
    SHARED(quad, tile, SIDE * (SIDE + 1) / 4);
    real *K = (real *)tile;
    const whole row0 = BLOCK_X * SIDE, c0 = BLOCK_Y * SIDE;
    tile_of(code, (real)parameter, (real)factor, X, n, Y, m, d, row0, c0, K);
    PHASE(t) {
        for (int i = t; i < SIDE * SIDE; i += THREADS)
            if (row0 + i / SIDE < n && c0 + i % SIDE < m)
                out[(row0 + i / SIDE) * m + c0 + i % SIDE] = K[i / SIDE * (SIDE + 1) + i % SIDE];
    }
}

/* Blocks: (rows, CENTERS centers, outputs). The products with the rows of V of those centers:
   (blocks of centers, n, outputs), in double precision. */
KERNEL products(whole code, double parameter, double factor, const real *__restrict__ X, whole n,
                const real *__restrict__ Y, whole m, whole d, const real *__restrict__ V,
                whole outputs, double *__restrict__ out)
{
    SHARED(quad, tile, SIDE * (SIDE + 1) / 4);
    real *K = (real *)tile;
    REGISTERS(double, totals, SLOTS);
    const whole row0 = BLOCK_X * SIDE, k0 = BLOCK_Z * OUTPUTS;
    const whole begin = BLOCK_Y * CENTERS, end = lesser(m, begin + CENTERS);
    PHASE(t) {
        UNROLL for (int s = 0; s < SLOTS; s++)
            OWN(totals, t)[s] = 0.0;
    }
    for (whole c0 = begin; c0 < end; c0 += SIDE) {
        const int some = (int)lesser(SIDE, end - c0);
        tile_of(code, (real)parameter, (real)factor, X, n, Y, m, d, row0, c0, K);
        PHASE(t) {
            UNROLL for (int s = 0; s < SLOTS; s++)
            {
                const whole k = k0 + (t + s * THREADS) / SIDE;
                const real *row = K + (t + s * THREADS) % SIDE * (SIDE + 1);
                const real *v = V + c0 * outputs + k;
                real sum = (real)0;
                if (k < outputs) {
                    UNROLL_BY(8) for (int c = 0; c < some; c++)
                        sum = fused_real(row[c], v[c * outputs], sum);
                    OWN(totals, t)[s] += sum;
                }
            }
        }
    }
    PHASE(t) {
        UNROLL for (int s = 0; s < SLOTS; s++)
        {
            const whole row = row0 + (t + s * THREADS) % SIDE;
            const whole k = k0 + (t + s * THREADS) / SIDE;
            if (row < n && k < outputs)
                out[(BLOCK_Y * n + row) * outputs + k] = OWN(totals, t)[s];
        }
    }
}

/* out = the sum of the parts, in their order, in double precision like them. */
KERNEL add_products(const double *__restrict__ parts, whole count, whole size,
                    double *__restrict__ out)
{
    PHASE(t) {
        const whole i = BLOCK_X * THREADS + t;
        if (i < size) {
            double total = parts[i];
            for (whole p = 1; p < count; p++)
                total += parts[p * size + i];
            out[i] = total;
        }
    }
}
