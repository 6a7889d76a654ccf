/* Features of a tile of rows, and at once what is made of them: they are never stored but where
   they are the result.

   A block evaluates CELLS features: of some rows and the `span` features that belong together, one
   chunk of dense frequencies or as many as the widest Hadamard transform has outputs. Each cell is
   computed in one fixed order whatever else is in the tile, so a row's numbers do not depend on
   its batch. */

#if HADAMARD && PHASE_IS_DOUBLE
#define CELLS 2048
#else
#define CELLS 4096
#endif
/* Columns that pass through shared memory together. */
#define DEPTH 8
#define DENSE_ROWS (CELLS / CHUNK)
#define ROUNDS 3
/* Curves of phases. */
#define IDENTITY 0
#define COSINE 1
#define STEP 2
#define RAMP 3
/* The farthest a transform reaches, in chunks. */
#define WIDEST_CHUNKS 16
/* One number of padding in eight: strides of 8 and 16 then meet each bank twice at most. */
#define PADDED(i) ((i) + ((i) >> 3))
/* Rows whose gradients are summed up by one block, whatever their number: a fixed order. */
#define SEGMENT 64
/* Sums that a thread keeps in registers. */
#define SLOTS 32
#define FEW_SLOTS 4

/* What a transform works in, in quads. The columns of dense frequencies pass through the tile. */
#if HADAMARD
#define WORK (PADDED(CELLS) / 4)
#else
#define WORK 1
#endif

/* Where a block's features come from. Of a dense basis, `table` holds the frequencies W; of a
   Hadamard basis the lengths of its groups, whose widths and signs are its own. */
#define BASIS                                                                             \
    const real *__restrict__ X, whole n, whole d, const real *__restrict__ table,         \
        const real *__restrict__ b, const word64 *__restrict__ signs,                     \
        const whole *__restrict__ widths, whole groups, whole span, whole curve
#define OF_BASIS X, n, d, table, b, signs, widths, groups, span, curve

INLINE int bits_of(whole power)
{
    int bits = 0;
    while (power >> bits > 1)
        bits++;
    return bits;
}

/* What a kernel knows of its tile: rows and features are told apart by bits, not by divisions. */
#if HADAMARD
#define SPAN_BITS bits_of(span)
#else
#define SPAN_BITS 6
#endif
#define TILE                                                                      \
    SHARED(quad, buffer, WORK);                                                   \
    SHARED(quad, cells, CELLS / 4);                                               \
    phase *tile = (phase *)cells;                                                 \
    const int span_bits = SPAN_BITS, chunk_bits = span_bits - 6;                  \
    const int span_mask = (1 << span_bits) - 1, rows = CELLS >> span_bits;        \
    const whole c0 = ((lo >> chunk_bits) + BLOCK_Y) << chunk_bits

/* cos(2 pi u): a minimax polynomial, a degree above the CPU's, with an error of 4.2e-7 in single and
   1e-14 in double precision. A phase that overflowed counts as half a turn. */
INLINE real cosine_of_turns(phase u)
{
#if PHASE_IS_DOUBLE
    const real t = (real)fmin(fabs(u - rint(u)), 0.5);
#else
    const real t = fminf(fabsf(u - rintf(u)), 0.5f);
#endif
    const real s = t * t;
#if REAL_IS_DOUBLE
    /* Taylor's of a quarter of the angle, doubled twice. */
    double c = fma(6.565963114979468e-11, s, -6.386603083791849e-09);
    c = fma(c, s, 4.710874778818169e-07);
    c = fma(c, s, -2.5202042373060596e-05);
    c = fma(c, s, 0.0009192602748394263);
    c = fma(c, s, -0.020863480763352957);
    c = fma(c, s, 0.253669507901048);
    c = fma(c, s, -1.2337005501361697);
    c = fma(c, s, 1.0);
    c = fma(2.0 * c, c, -1.0);
    return fma(2.0 * c, c, -1.0);
#else
    float c = fmaf(6.5296106f, s, -25.968313f);
    c = fmaf(c, s, 60.16783f);
    c = fmaf(c, s, -85.450165f);
    c = fmaf(c, s, 64.93912f);
    c = fmaf(c, s, -19.739204f);
    return fmaf(c, s, 1.0f);
#endif
}

/* The curves, by their code: u itself, its cosine, a step, a ramp, its square. */
INLINE phase feature(phase u, whole curve)
{
    const real ramp = u > 0 ? (real)u : (real)0;
    if (curve == COSINE)
        return (phase)cosine_of_turns(u);
    if (curve == IDENTITY)
        return (phase)(real)u;
    if (curve == STEP)
        return (phase)(u > 0 ? (real)1 : (real)0);
    return (phase)(curve == RAMP ? ramp : ramp * ramp);
}

#if HADAMARD

#define BUTTERFLIES(v, radix)                         \
    UNROLL for (int h = 1; h < radix; h *= 2)         \
    {                                                 \
        UNROLL for (int q = 0; q < radix; q++)        \
        {                                             \
            if (!(q & h)) {                           \
                const phase x = v[q], y = v[q + h];   \
                v[q] = x + y;                         \
                v[q + h] = x - y;                     \
            }                                         \
        }                                             \
    }

/* The number, or what is opposite to it where this round's bit of the feature is set. */
INLINE phase flipped(phase v, unsigned char flips, int round)
{
    return flips >> round & 1 ? -v : v;
}

/* One pass of thread t over the tile: the stages of `bits` bits of a feature's number, from bit
   `shift` on, which is 0 or at least 3. Stages commute, so where a round of transforms begins with
   the bits that the one before ended with, it does so in the same pass (`turn`). The first pass
   reads X, as far as there are columns and rows; the last one adds to the phases. `round` is the
   round whose signs are applied first, or in between. */
#define DEFINE_PASS(radix, bits)                                                               \
    INLINE void pass_##radix(int t, int shift, int round, int first, int turn, int last,       \
                             phase *work, phase *tile, const unsigned char *flips,             \
                             const real *X, int some, whole d, int columns, int span_bits,     \
                             int width, const real *radii, int groups)                         \
    {                                                                                          \
        const int step = 1 << shift, apart = shift ? PADDED(step) : 1, over = !shift;          \
        for (int item = t; item < CELLS / radix; item += THREADS) {                            \
            const int base = (item >> shift << (shift + bits)) + (item & (step - 1));          \
            const int row = base >> span_bits, f = base & ((1 << span_bits) - 1);              \
            phase *here = work + PADDED(base);                                                 \
            phase v[radix];                                                                    \
            if (row < some) {                                                                  \
                if (first) {                                                                   \
                    const int column = f & (width - 1);                                        \
                    const real *x = X + row * d + column;                                      \
                    UNROLL for (int q = 0; q < radix; q++) v[q] = flipped(                     \
                        column + q * step < columns ? (phase)x[q * step] : (phase)0,           \
                        flips[f + q * step], round);                                           \
                } else {                                                                       \
                    UNROLL for (int q = 0; q < radix; q++) v[q] =                              \
                        here[q * apart + (q >> 3) * over];                                     \
                }                                                                              \
                BUTTERFLIES(v, radix)                                                          \
                if (turn) {                                                                    \
                    UNROLL for (int q = 0; q < radix; q++) v[q] =                              \
                        flipped(v[q], flips[f + q * step], round);                             \
                    BUTTERFLIES(v, radix)                                                      \
                }                                                                              \
                if (last) {                                                                    \
                    UNROLL for (int q = 0; q < radix; q++)                                     \
                    {                                                                          \
                        const int g = f + q * step;                                            \
                        tile[base + q * step] =                                                \
                            fused(radii[(g / CHUNK) * groups * CHUNK + g % CHUNK], v[q],       \
                                  tile[base + q * step]);                                      \
                    }                                                                          \
                } else {                                                                       \
                    UNROLL for (int q = 0; q < radix; q++)                                     \
                        here[q * apart + (q >> 3) * over] = v[q];                              \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }

DEFINE_PASS(8, 3)
DEFINE_PASS(16, 4)

/* The bits of a feature's number in parts of three or four, of which the first are the highest:
   there neighbouring threads have neighbouring columns. */
INLINE int bits_of_part(int width_bits, int part)
{
    if (width_bits <= 8)
        return part == 0 ? width_bits / 2 : width_bits - width_bits / 2;
    return part == 1 ? width_bits - 6 : 3;
}

INLINE int shift_of_part(int width_bits, int part)
{
    if (part == 0)
        return width_bits - bits_of_part(width_bits, 0);
    return part == 1 ? 0 : bits_of_part(width_bits, 1);
}

/* The features of the tile that begins with row `row0` and chunk `c0`. */
INLINE void evaluate(BASIS, whole row0, whole c0, quad *buffer, phase *tile)
{
    SHARED(unsigned char, flips, WIDEST_CHUNKS * CHUNK);
    phase *work = (phase *)buffer;
    const int span_bits = SPAN_BITS, some = (int)lesser(CELLS >> span_bits, n - row0);
    whole column0 = 0;
    PHASE(t) {
        for (int i = t; i < CELLS; i += THREADS)
            tile[i] =
                curve == COSINE ? (phase)b[c0 * CHUNK + (i & ((1 << span_bits) - 1))] : (phase)0;
    }
    for (whole g = 0; g < groups; g++) {
        const int width = (int)widths[g], columns = (int)lesser(width, d - column0);
        const int width_bits = bits_of(width), parts = width_bits <= 8 ? 2 : 3;
        const int passes = 3 * parts - 2;
        const real *x = X + row0 * d + column0, *radii = table + (c0 * groups + g) * CHUNK;
        PHASE(t) {
            for (int i = t; i < 1 << span_bits; i += THREADS) {
                const word64 *of_chunk = signs + ((c0 + i / CHUNK) * groups + g) * ROUNDS;
                int bits = 0;
                for (int round = 0; round < ROUNDS; round++)
                    bits |= (int)(of_chunk[round] >> (i % CHUNK) & 1) << round;
                flips[i] = (unsigned char)bits;
            }
        }
        /* Up and down and up the parts again, the turns being one pass each. */
        for (int pass = 0; pass < passes; pass++) {
            const int round = pass / (parts - 1), step = pass % (parts - 1);
            const int turn = step == 0 && pass > 0 && pass < passes - 1;
            const int part = round == 1 ? parts - 1 - step : round == 3 ? parts - 1 : step;
            const int bits = bits_of_part(width_bits, part);
            const int shift = shift_of_part(width_bits, part);
            PHASE(t) {
                if (bits == 4)
                    pass_16(t, shift, round, pass == 0, turn, pass == passes - 1, work, tile,
                            flips, x, some, d, columns, span_bits, width, radii, (int)groups);
                else
                    pass_8(t, shift, round, pass == 0, turn, pass == passes - 1, work, tile, flips,
                           x, some, d, columns, span_bits, width, radii, (int)groups);
            }
        }
        column0 += width;
    }
    PHASE(t) {
        if (curve == COSINE) {
            for (int i = t; i < CELLS; i += THREADS)
                tile[i] = (phase)cosine_of_turns(tile[i]);
        } else {
            for (int i = t; i < CELLS; i += THREADS)
                tile[i] = feature(tile[i], curve);
        }
    }
}

#else

/* Numbers of X, and as many of W, that a thread brings at a stage. */
#define STAGED (DEPTH * CHUNK / THREADS)
/* Columns of X (with a quad of padding), and of W behind them: quads of a stage. */
#define LEFT (DENSE_ROWS / 4 + 1)
#define STAGE (DEPTH * (LEFT + CHUNK / 4))
typedef char two_stages_fit_the_tile[2 * STAGE <= CELLS / 4 ? 1 : -1];

/* Read a thread's numbers of a stage, of which so many columns are left: what is beyond the last
   one is 0. Behind the last row it is read again, for cells that no one asks for. */
INLINE void ahead(int t, const real **from, int columns, phase *next)
{
    if (columns >= DEPTH) {
        UNROLL for (int q = 0; q < STAGED; q++)
        {
            next[q] = (phase)*from[q];
            next[STAGED + q] = (phase)from[STAGED][q * THREADS];
        }
    } else {
        UNROLL for (int q = 0; q < STAGED; q++)
        {
            const int j = t / CHUNK + q * (THREADS / CHUNK);
            next[q] = t % DEPTH < columns ? (phase)*from[q] : (phase)0;
            next[STAGED + q] = j < columns ? (phase)from[STAGED][q * THREADS] : (phase)0;
        }
    }
    UNROLL for (int q = 0; q < STAGED; q++) from[q] += DEPTH;
    from[STAGED] += DEPTH * CHUNK;
}

INLINE void set_down(int t, const phase *next, quad *stage)
{
    UNROLL for (int q = 0; q < STAGED; q++)
    {
        ((phase *)(stage + t % DEPTH * LEFT))[t / DEPTH + q * (THREADS / DEPTH)] = next[q];
        ((phase *)(stage + DEPTH * LEFT))[t + q * THREADS] = next[STAGED + q];
    }
}

/* A stage of thread t: set down the numbers of the next one in the other half of the tile, send for
   those after it, of which so many columns are left, and work with those that are here. */
INLINE void advance(int t, const quad *here, quad *other, const real **from, int columns, int some,
                    phase *next, phase *phases)
{
    const quad *left = here + t / 16, *right = here + DEPTH * LEFT + t % 16;
    set_down(t, next, other);
    ahead(t, from, columns, next);
    if (4 * (t / 16) < some) {
        UNROLL for (int j = 0; j < DEPTH; j++)
        {
            const quad u = left[j * LEFT], v = right[j * (CHUNK / 4)];
            UNROLL for (int i = 0; i < 16; i++)
                phases[i] = fused(u.x[i / 4], v.x[i % 4], phases[i]);
        }
    }
}

/* The features of the tile that begins with row `row0`, of chunk `c0`. A thread has four rows and
   four features, whose phases stay in registers while the columns pass by, in their order, by way of
   what will be the tile. */
INLINE void evaluate(BASIS, whole row0, whole c0, quad *buffer, phase *tile)
{
    REGISTERS(phase, phases, 16);
    REGISTERS(phase, next, 2 * STAGED);
    REGISTERS(const real *, from, STAGED + 1);
    const int columns = (int)d, some = (int)lesser(DENSE_ROWS, n - row0);
    quad *stages = (quad *)tile;
    PHASE(t) {
        UNROLL for (int i = 0; i < 16; i++)
            OWN(phases, t)[i] =
                curve == COSINE ? (phase)b[c0 * CHUNK + 4 * (t % 16) + i % 4] : (phase)0;
        UNROLL for (int q = 0; q < STAGED; q++)
        {
            const whole r = row0 + t / DEPTH + q * (THREADS / DEPTH);
            OWN(from, t)[q] = X + lesser(r, n - 1) * d + t % DEPTH;
        }
        OWN(from, t)[STAGED] = table + c0 * d * CHUNK + t;
        ahead(t, OWN(from, t), columns, OWN(next, t));
        set_down(t, OWN(next, t), stages);
        ahead(t, OWN(from, t), columns - DEPTH, OWN(next, t));
    }
    for (int left = columns; left > 0; left -= 2 * DEPTH) {
        PHASE(t) {
            advance(t, stages, stages + STAGE, OWN(from, t), left - 2 * DEPTH, some, OWN(next, t),
                    OWN(phases, t));
        }
        if (left > DEPTH) {
            PHASE(t) {
                advance(t, stages + STAGE, stages, OWN(from, t), left - 3 * DEPTH, some,
                        OWN(next, t), OWN(phases, t));
            }
        }
    }
    PHASE(t) {
        if (curve == COSINE) {
            UNROLL for (int i = 0; i < 16; i++)
                OWN(phases, t)[i] = (phase)cosine_of_turns(OWN(phases, t)[i]);
        } else {
            UNROLL for (int i = 0; i < 16; i++)
                OWN(phases, t)[i] = feature(OWN(phases, t)[i], curve);
        }
        UNROLL for (int i = 0; i < 4; i++)
        {
            quad four;
            UNROLL for (int k = 0; k < 4; k++) four.x[k] = OWN(phases, t)[4 * i + k];
            ((quad *)tile)[(4 * (t / 16) + i) * (CHUNK / 4) + t % 16] = four;
        }
    }
}

#endif

/* A lane's coefficients, and the sum of these times its features. */
#define COEFFICIENTS(a) {(a)[0], (a)[LANES], (a)[2 * LANES], (a)[3 * LANES]}

INLINE real of_lane(const real *four, const phase *phi)
{
    real sum = four[0] * (real)phi[0];
    sum = fused_real(four[1], (real)phi[LANES], sum);
    sum = fused_real(four[2], (real)phi[2 * LANES], sum);
    return fused_real(four[3], (real)phi[3 * LANES], sum);
}

/* Blocks: (rows, span). The partial sums of each chunk from lo to hi, each row and output: lane l
   has the features l, l + 16, l + 32 and l + 48. */
KERNEL sums(BASIS, whole lo, whole hi, const real *__restrict__ A, whole outputs,
            real *__restrict__ out)
{
    TILE;
    const whole row0 = BLOCK_X * rows;
    evaluate(OF_BASIS, row0, c0, buffer, tile);
    PHASE(t) {
        const int lane = t % LANES, some = (int)lesser(rows, n - row0);
#if HADAMARD
        for (int i = t / LANES; i < CELLS / CHUNK; i += THREADS / LANES) {
            const int chunk = i & ((1 << chunk_bits) - 1), r = i >> chunk_bits;
            const whole c = c0 + chunk;
            const phase *phi = tile + (r << span_bits) + chunk * CHUNK + lane;
            const real *a = A + c * outputs * CHUNK + lane;
            real *to = out + ((c - lo) * n + row0 + r) * outputs * LANES + lane;
            if (r < some && c >= lo && c < hi)
                for (whole k = 0; k < outputs; k++, a += CHUNK, to += LANES) {
                    const real four[] = COEFFICIENTS(a);
                    *to = of_lane(four, phi);
                }
        }
#else
        const phase *phi = tile + t / LANES * CHUNK + lane;
        const real *a = A + c0 * outputs * CHUNK + lane;
        real *to = out + ((c0 - lo) * n + row0 + t / LANES) * outputs * LANES + lane;
        for (whole k = 0; k < outputs; k++, a += CHUNK, to += LANES) {
            const real four[] = COEFFICIENTS(a);
            UNROLL for (int q = 0; q < DENSE_ROWS * LANES / THREADS; q++)
            {
                const int r = q * (THREADS / LANES);
                if (t / LANES + r < some)
                    to[r * outputs * LANES] = of_lane(four, phi + r * CHUNK);
            }
        }
#endif
    }
}

/* Blocks: (rows, span). The features of the chunks from lo to hi, in rows `stride` long. */
KERNEL features(BASIS, whole lo, whole hi, real *__restrict__ out, whole stride)
{
    TILE;
    const whole row0 = BLOCK_X * rows;
    evaluate(OF_BASIS, row0, c0, buffer, tile);
    PHASE(t) {
        for (int i = t; i < CELLS; i += THREADS) {
            const int f = i & span_mask;
            const whole row = row0 + (i >> span_bits), c = c0 + f / CHUNK;
            if (row < n && c >= lo && c < hi)
                out[row * stride + c0 * CHUNK + f] = (real)tile[i];
        }
    }
}

/* The sum over each segment's rows of G times features, of the chunks from lo to hi: (segments,
   chunks, outputs, CHUNK). A thread keeps so many sums. */
#define GRADIENT(slots)                                                                          \
    TILE;                                                                                        \
    REGISTERS(real, totals, slots);                                                              \
    const whole k0 = BLOCK_Z * (slots * THREADS >> span_bits);                                   \
    const whole begin = BLOCK_X * SEGMENT, end = lesser(n, begin + SEGMENT);                     \
    PHASE(t) {                                                                                   \
        UNROLL for (int s = 0; s < slots; s++) OWN(totals, t)[s] = (real)0;                      \
    }                                                                                            \
    for (whole row0 = begin; row0 < end; row0 += rows) {                                         \
        const int some = (int)lesser(rows, end - row0);                                          \
        evaluate(OF_BASIS, row0, c0, buffer, tile);                                              \
        PHASE(t) {                                                                               \
            UNROLL for (int s = 0; s < slots; s++)                                               \
            {                                                                                    \
                const whole k = k0 + ((t + s * THREADS) >> span_bits);                           \
                if (k < outputs)                                                                 \
                    OWN(totals, t)[s] = weighed(G + row0 * outputs + k, outputs,                 \
                                                tile + ((t + s * THREADS) & span_mask), some,    \
                                                span_bits, OWN(totals, t)[s]);                   \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    PHASE(t) {                                                                                   \
        UNROLL for (int s = 0; s < slots; s++)                                                   \
        {                                                                                        \
            const int f = (t + s * THREADS) & span_mask;                                         \
            const whole k = k0 + ((t + s * THREADS) >> span_bits), c = c0 + f / CHUNK;           \
            if (k < outputs && c >= lo && c < hi)                                                \
                out[((BLOCK_X * (hi - lo) + c - lo) * outputs + k) * CHUNK + f % CHUNK] =        \
                    OWN(totals, t)[s];                                                           \
        }                                                                                        \
    }

/* total + the sum over some rows of a feature times an output's G. */
INLINE real weighed(const real *G, whole outputs, const phase *phi, int some, int span_bits,
                    real total)
{
    UNROLL_BY(8) for (int r = 0; r < some; r++)
        total = fused_real(G[r * outputs], (real)phi[r << span_bits], total);
    return total;
}

/* Blocks: (segment, span, outputs). */
KERNEL gradient(BASIS, whole lo, whole hi, const real *__restrict__ G, whole outputs,
                real *__restrict__ out)
{
    GRADIENT(SLOTS)
}

/* The same for few outputs: with fewer registers a multiprocessor has room for more blocks. */
KERNEL gradient_of_few(BASIS, whole lo, whole hi, const real *__restrict__ G, whole outputs,
                       real *__restrict__ out)
{
    GRADIENT(FEW_SLOTS)
}

/* Blocks: (chunk, piece). The features of projections U (chunks, n, CHUNK) that a matrix product
   has made, in rows `stride` long. */
KERNEL bend(const phase *__restrict__ U, whole n, const real *__restrict__ b, whole curve,
            real *__restrict__ out, whole stride)
{
    const whole c = BLOCK_X;
    PHASE(t) {
        for (whole i = BLOCK_Y * THREADS + t; i < lesser(n * CHUNK, (BLOCK_Y + 1) * THREADS);
             i += THREADS) {
            const phase u = U[c * n * CHUNK + i];
            out[i / CHUNK * stride + c * CHUNK + i % CHUNK] =
                (real)feature(curve == COSINE ? u + (phase)b[c * CHUNK + i % CHUNK] : u, curve);
        }
    }
}
