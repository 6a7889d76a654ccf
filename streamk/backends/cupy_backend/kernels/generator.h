/* Philox4x32-10 (Salmon et al. 2011), and what is drawn with it: frequencies, signs, lengths.

   A thread's unit is one call of the generator, four neighbouring features. Where numbers are
   single, normals are computed in single precision, with care for the two ends of the logarithm
   and the quadrant of the angle: they agree with double precision to 4e-7 (1 + |z|), and a GPU
   whose double precision is slow draws them at full speed. Tails of the Cauchy and Laplace laws
   are beyond that and computed in double precision. */

#define CALLS (CHUNK / 4)
/* Columns that share the radii of one block. */
#define COLUMNS 64

#define LAW_CAUCHY 1
#define LAW_LAPLACE 2
#define LAW_STUDENT 3
#define LAW_RATIONAL 4
#define TAG_FREQUENCY 0
#define TAG_PHASE 1
#define TAG_SIGN 2
#define TAG_LENGTH 5
#define TAG_RADIUS 16
#define ROUNDS 3

#define PI 3.14159265358979323846
#define UNIT 2.3283064365386962890625e-10 /* 2^-32 */

INLINE void philox(word32 c0, word32 c1, word64 key, word64 seed, word32 *out)
{
    word32 c2 = (word32)key, c3 = (word32)(key >> 32);
    word32 k0 = (word32)seed, k1 = (word32)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const word64 p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (word32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (word32)p1;
        c2 = (word32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (word32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

INLINE double uniform(word32 w)
{
    return (w + 0.5) * UNIT;
}

/* Box-Muller: two normals from two words. */
INLINE void exact_pair(word32 a, word32 b, double *z)
{
    const double r = sqrt(-2.0 * log(uniform(a))), angle = 2.0 * PI * uniform(b);
    z[0] = r * cos(angle);
    z[1] = r * sin(angle);
}

#if REAL_IS_DOUBLE

INLINE void normal_pair(word32 a, word32 b, real *z)
{
    exact_pair(a, b, z);
}

#else

INLINE void normal_pair(word32 a, word32 b, real *z)
{
    /* Near 1 the logarithm needs what is missing to 1, and that is exact as ~a. */
    const float unit = (float)UNIT;
    const float l = a < 0x80000000u ? -logf(((float)a + 0.5f) * unit)
                                    : -log1pf(-(((float)~a + 0.5f) * unit));
    const float r = sqrtf(2.0f * l);
    /* The nearest quadrant, and what remains of the angle, at most an eighth of a turn. */
    const word32 quadrant = (b + 0x20000000u) >> 30;
    const int rest = (int)(b - (quadrant << 30));
    const float t = ((float)rest + 0.5f) * (float)(2.0 * PI * UNIT), s = t * t;
    float sine = fmaf(fmaf(-1.9515295891e-4f, s, 8.3321608736e-3f), s, -1.6666654611e-1f);
    float cosine = fmaf(fmaf(2.443315711809948e-5f, s, -1.388731625493765e-3f), s,
                        4.166664568298827e-2f);
    float x, y;
    sine = fmaf(sine * s, t, t);
    cosine = fmaf(cosine, s * s, fmaf(-0.5f, s, 1.0f));
    x = quadrant & 1 ? sine : cosine;
    y = quadrant & 1 ? cosine : sine;
    z[0] = r * (quadrant == 1 || quadrant == 2 ? -x : x);
    z[1] = r * (quadrant >= 2 ? -y : y);
}

#endif

INLINE void normals(word32 group, word32 tag, word64 key, word64 seed, real *z)
{
    word32 w[4];
    philox(group, tag, key, seed, w);
    normal_pair(w[0], w[1], z);
    normal_pair(w[2], w[3], z + 2);
}

/* The factor of four features' lengths that makes normals the law's. The t law divides by these
   normals, so where one is near 0 its relative error counts: double precision. */
INLINE void radii_of_law(word64 seed, whole law, whole dof, word32 group, double *r)
{
    double squares[4] = {0.0, 0.0, 0.0, 0.0};
    if (law == LAW_STUDENT || law == LAW_RATIONAL)
        for (whole j = 0; j < dof; j++) {
            word32 w[4];
            double z[4];
            philox(group, (word32)(TAG_RADIUS + j), 0, seed, w);
            exact_pair(w[0], w[1], z);
            exact_pair(w[2], w[3], z + 2);
            for (int q = 0; q < 4; q++)
                squares[q] += z[q] * z[q];
        }
    for (int q = 0; q < 4; q++) {
        r[q] = 1.0;
        if (law == LAW_STUDENT)
            r[q] = sqrt(dof / squares[q]);
        if (law == LAW_RATIONAL)
            r[q] = sqrt(squares[q] / dof);
    }
}

INLINE void phases(word64 seed, word32 group, real *b)
{
    word32 w[4];
    philox(group, TAG_PHASE, 0, seed, w);
    for (int q = 0; q < 4; q++)
        b[q] = (real)uniform(w[q]);
}

/* Blocks: (chunk, columns). */
KERNEL frequencies(word64 seed, whole law, whole dof, double scale,
                   const word64 *__restrict__ keys, whole d, whole first, real *__restrict__ W,
                   real *__restrict__ b)
{
    SHARED(double, lengths, CHUNK);
    const whole c = BLOCK_X, begin = BLOCK_Y * COLUMNS, end = lesser(d, begin + COLUMNS);
    PHASE(t) {
        if (t < CALLS) {
            const word32 group = (word32)((first + c) * CALLS + t);
            radii_of_law(seed, law, dof, group, lengths + 4 * t);
            for (int q = 0; q < 4; q++)
                lengths[4 * t + q] *= scale;
            if (begin == 0)
                phases(seed, group, b + c * CHUNK + 4 * t);
        }
    }
    PHASE(t) {
        const int call = t % CALLS;
        const word32 group = (word32)((first + c) * CALLS + call);
        const double *length = lengths + 4 * call;
        for (whole j = begin + t / CALLS; j < end; j += THREADS / CALLS) {
            real *w = W + (c * d + j) * CHUNK + 4 * call;
            if (law == LAW_CAUCHY || law == LAW_LAPLACE) {
                word32 words[4];
                philox(group, TAG_FREQUENCY, keys[j], seed, words);
                for (int q = 0; q < 4; q++) {
                    const double u = uniform(words[q]);
                    double x = tan(PI * (u - 0.5));
                    if (law == LAW_LAPLACE)
                        x = u < 0.5 ? log(2.0 * u) : -log(2.0 * (1.0 - u));
                    w[q] = (real)(x * length[q]);
                }
            } else {
                real z[4];
                normals(group, TAG_FREQUENCY, keys[j], seed, z);
                for (int q = 0; q < 4; q++)
                    w[q] = z[q] * (real)length[q];
            }
        }
    }
}

/* Blocks: (chunk). See `streamk.backends.Hadamard`; lengths are chi by Wilson and Hilferty (1931). */
KERNEL rotations(word64 seed, whole law, whole dof, double scale, const whole *__restrict__ widths,
                 whole groups, whole first, word64 *__restrict__ signs, real *__restrict__ radii,
                 real *__restrict__ b)
{
    SHARED(double, lengths, CHUNK);
    const whole c = BLOCK_X;
    PHASE(t) {
        if (t < CALLS) {
            const word32 group = (word32)((first + c) * CALLS + t);
            radii_of_law(seed, law, dof, group, lengths + 4 * t);
            phases(seed, group, b + c * CHUNK + 4 * t);
        }
        for (whole i = t; i < groups * ROUNDS; i += THREADS) {
            /* One call signs two neighbouring chunks. */
            const whole chunk = first + c;
            const int half = (int)(chunk % 2) * 2;
            word32 w[4];
            philox((word32)(chunk / 2), (word32)(TAG_SIGN + i % ROUNDS), (word64)(i / ROUNDS), seed,
                   w);
            signs[c * groups * ROUNDS + i] = w[half] | (word64)w[half + 1] << 32;
        }
    }
    PHASE(t) {
        for (whole i = t; i < groups * CALLS; i += THREADS) {
            const whole g = i / CALLS;
            const int call = (int)(i % CALLS);
            const double p = (double)widths[g], small = 2.0 / (9.0 * p);
            real z[4];
            normals((word32)((first + c) * CALLS + call), TAG_LENGTH, (word64)g, seed, z);
            for (int q = 0; q < 4; q++) {
                const double x = 1.0 - small + (double)z[q] * sqrt(small);
                const double chi = sqrt(p) * (x * sqrt(x));
                radii[(c * groups + g) * CHUNK + 4 * call + q] =
                    (real)(chi / (p * sqrt(p)) * (scale * lengths[4 * call + q]));
            }
        }
    }
}
