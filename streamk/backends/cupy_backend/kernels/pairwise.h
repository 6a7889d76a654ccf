/* Kernels between points, and their product with vectors, without storing the kernels.

   A block has a tile of 64 rows and 64 centers; a thread, four of each, whose sums over the columns
   stay in registers while the columns pass by, in their order. Distances are sums of differences:
   a matrix product would be faster, but cancels (see the twin in NumPy). */

#define SIDE 64
#define DEPTH 8
#define STRIDE (SIDE / 4 + 1)
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

/* What one column adds to a pair's sum (multiplies it with, for the product Cauchy kernel). */
INLINE real with_column(whole code, real factor, real x, real y, real sum)
{
    const real t = x - y;
    if (code == LINEAR)
        return fused_real(x, y, sum);
    if (code == LAPLACIAN)
        return sum + ABS(t);
    if (code == CAUCHY)
        return sum * fused_real(t * t, factor, (real)1);
    return fused_real(t, t, sum);
}

/* The neural tangent kernel of points on the unit sphere, from sin(theta / 2)^2: what it and the
   cosine lack of their values at angle 0, layer by layer (see the twin in NumPy). */
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

/* The kernel of a pair's sum; `factor` has the bandwidth in it, see `factor` in Python. */
INLINE real kernel_of(whole code, real parameter, real factor, real sum)
{
    if (code == LINEAR)
        return sum;
    if (code == GAUSSIAN || code == LAPLACIAN)
        return EXP(-factor * sum);
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
        return parameter > (real)1 ? k * ((real)1 + r) : k;
    }
}

/* The kernels of the rows from row0 and the centers from c0 on. */
INLINE void tile_of(whole code, real parameter, real factor, const real *X, whole n, const real *Y,
                    whole m, whole d, whole row0, whole c0, real *left, real *right, real *K)
{
    REGISTERS(real, sums, 16);
    PHASE(t) {
        UNROLL for (int i = 0; i < 16; i++)
            OWN(sums, t)[i] = code == CAUCHY ? (real)1 : (real)0;
    }
    for (whole j0 = 0; j0 < d; j0 += DEPTH) {
        /* What is beyond the edges is 0 on both sides, and then adds nothing. */
        PHASE(t) {
            for (int i = t; i < DEPTH * SIDE; i += THREADS) {
                const int r = i / DEPTH, j = i % DEPTH;
                const int inside = j0 + j < d, at = j * 4 * STRIDE + r;
                left[at] = inside && row0 + r < n ? X[(row0 + r) * d + j0 + j] : (real)0;
                right[at] = inside && c0 + r < m ? Y[(c0 + r) * d + j0 + j] : (real)0;
            }
        }
        PHASE(t) {
            UNROLL for (int j = 0; j < DEPTH; j++)
            {
                const real *x = left + j * 4 * STRIDE + 4 * (t / 16);
                const real *y = right + j * 4 * STRIDE + 4 * (t % 16);
                UNROLL for (int i = 0; i < 16; i++)
                    OWN(sums, t)[i] = with_column(code, factor, x[i / 4], y[i % 4],
                                                  OWN(sums, t)[i]);
            }
        }
    }
    PHASE(t) {
        UNROLL for (int i = 0; i < 16; i++)
            K[(4 * (t / 16) + i / 4) * (SIDE + 1) + 4 * (t % 16) + i % 4] =
                kernel_of(code, parameter, factor, OWN(sums, t)[i]);
    }
}

/* Blocks: (rows, centers). */
KERNEL pairwise(whole code, double parameter, double factor, const real *__restrict__ X, whole n,
                const real *__restrict__ Y, whole m, whole d, real *__restrict__ out)
{
    SHARED(real, left, DEPTH * 4 * STRIDE);
    SHARED(real, right, DEPTH * 4 * STRIDE);
    SHARED(real, K, SIDE * (SIDE + 1));
    const whole row0 = BLOCK_X * SIDE, c0 = BLOCK_Y * SIDE;
    tile_of(code, (real)parameter, (real)factor, X, n, Y, m, d, row0, c0, left, right, K);
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
    SHARED(real, left, DEPTH * 4 * STRIDE);
    SHARED(real, right, DEPTH * 4 * STRIDE);
    SHARED(real, K, SIDE * (SIDE + 1));
    REGISTERS(double, totals, SLOTS);
    const whole row0 = BLOCK_X * SIDE, k0 = BLOCK_Z * OUTPUTS;
    const whole begin = BLOCK_Y * CENTERS, end = lesser(m, begin + CENTERS);
    PHASE(t) {
        UNROLL for (int s = 0; s < SLOTS; s++)
            OWN(totals, t)[s] = 0.0;
    }
    for (whole c0 = begin; c0 < end; c0 += SIDE) {
        const int some = (int)lesser(SIDE, end - c0);
        tile_of(code, (real)parameter, (real)factor, X, n, Y, m, d, row0, c0, left, right, K);
        PHASE(t) {
            UNROLL for (int s = 0; s < SLOTS; s++)
            {
                const whole k = k0 + (t + s * THREADS) / SIDE;
                const real *row = K + (t + s * THREADS) % SIDE * (SIDE + 1);
                real sum = (real)0;
                if (k < outputs)
                    for (int c = 0; c < some; c++)
                        sum = fused_real(row[c], V[(c0 + c) * outputs + k], sum);
                OWN(totals, t)[s] += sum;
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
