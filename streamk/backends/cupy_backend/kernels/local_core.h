/* The prediction of one event by trees of small kernel models: `LocalKernels` in codes.py.

   One text for a thread of a GPU, where the workspaces of many threads are interleaved, and for the
   headers of `streamk.export`, whose compiler makes a vector of each loop over LANES
   numbers. Around it there must be INLINE, UNROLL, LANES, `whole` and `fused_real`, as in portable.h
   with float for real. Number i of a workspace is at [i * stride]. A scaled event and a normal are
   filled up with zeros to `filled` numbers, a multiple of LANES. */

/* Keeps the passes of an outer loop apart, where a compiler would join them and lose its vectors. */
#ifndef APART
#define APART
#endif

/* exp(x) of x <= 0, within 2 units in the last place; 0 where it is below normal. It is arithmetic
   only, see numba_backend/exponential.py: a call would keep its loop from being a vector. */
INLINE float local_exponential(float x)
{
    const float big = 12582912.0f; /* 1.5 * 2^23: what is added to it becomes an integer */
    const float sum = fused_real(x, 1.44269504f, big), n = sum - big;
    const float r = (x - n * 0.693359375f) - n * -0.000212194440055f;
    float g = fused_real(0.00139262508314976117f, r, 0.0083632328836826182f), power;
    unsigned int bits;
    g = fused_real(g, r, 0.0416665542129841503f);
    g = fused_real(g, r, 0.166665766661199283f);
    g = fused_real(g, r, 0.5f);
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits << 23) + 0x3F800000u;
    memcpy(&power, &bits, sizeof power);
    return x < -87.33654f ? 0.0f : (fused_real(g * r, r, r) + 1.0f) * power;
}

/* Write the scaled event, with `fill` where x is NaN; return whether no value is infinite. */
INLINE int local_scale(const double *x, const double *shift, const double *factor,
                       const double *fill, whole d, whole filled, float *z, whole stride)
{
    const double largest = 1.7976931348623157e308, farthest = 1e6;
    int infinite = 0;
    for (whole j = 0; j < d; j++) {
        const double value = x[j], known = value != value ? fill[j] : value;
        const double scaled = (known - shift[j]) * factor[j];
        const double bounded = scaled < -farthest ? -farthest : scaled;
        infinite |= (value > largest) | (value < -largest);
        z[j * stride] = (float)(bounded > farthest ? farthest : bounded);
    }
    for (whole j = d; j < filled; j++)
        z[j * stride] = 0.0f;
    return !infinite;
}

/* The sum of LANES numbers, which it changes. */
INLINE float local_sum(float *numbers)
{
    UNROLL for (int k = 0; k < 8; k++)
        numbers[k] += numbers[k + 8];
    UNROLL for (int k = 0; k < 4; k++)
        numbers[k] += numbers[k + 4];
    return (numbers[0] + numbers[2]) + (numbers[1] + numbers[3]);
}

/* The largest of LANES numbers, which it changes. */
INLINE float local_largest(float *numbers)
{
    UNROLL for (int k = 0; k < 8; k++)
        numbers[k] = numbers[k + 8] > numbers[k] ? numbers[k + 8] : numbers[k];
    UNROLL for (int k = 0; k < 4; k++)
        numbers[k] = numbers[k + 4] > numbers[k] ? numbers[k + 4] : numbers[k];
    for (int k = 1; k < 4; k++)
        numbers[0] = numbers[k] > numbers[0] ? numbers[k] : numbers[0];
    return numbers[0];
}

/* The inner product of a workspace with y; `count` is a multiple of LANES. */
INLINE float local_product(const float *z, whole stride, const float *y, whole count)
{
    float sums[LANES] = {0.0f};
    for (whole j = 0; j < count; j += LANES)
        UNROLL for (int k = 0; k < LANES; k++)
            sums[k] = fused_real(z[(j + k) * stride], y[j + k], sums[k]);
    return local_sum(sums);
}

/* The same with the squares of a workspace. */
INLINE float local_squares(const float *z, whole stride, const float *y, whole count)
{
    float sums[LANES] = {0.0f};
    for (whole j = 0; j < count; j += LANES)
        UNROLL for (int k = 0; k < LANES; k++)
            sums[k] = fused_real(z[(j + k) * stride] * z[(j + k) * stride], y[j + k], sums[k]);
    return local_sum(sums);
}

/* The greatest of a workspace's numbers; `count` is a multiple of LANES. */
INLINE float local_greatest(const float *scores, whole stride, whole count)
{
    float most[LANES];
    UNROLL for (int k = 0; k < LANES; k++)
        most[k] = scores[k * stride];
    for (whole j = LANES; j < count; j += LANES)
        UNROLL for (int k = 0; k < LANES; k++) {
            const float score = scores[(j + k) * stride];
            most[k] = score > most[k] ? score : most[k];
        }
    return local_largest(most);
}

/* The number of a scaled event's leaf in the tree of that root. */
INLINE whole local_leaf(const float *normals, const float *offsets, const whole *children,
                        whole root, whole filled, const float *z, whole stride)
{
    whole node = root;
    while (node >= 0) {
        const float along = local_product(z, stride, normals + node * filled, filled);
        node = children[2 * node + (along >= offsets[node])];
    }
    return -1 - node;
}

/* sums[k] += LANES columns of a matrix with rows of `width` numbers, times a weight for each row. */
INLINE void local_combine(const float *weights, whole stride, const float *rows, whole width,
                          whole count, float *sums)
{
    for (whole i = 0; i < count; i++) {
        const float weight = weights[i * stride];
        APART
        UNROLL for (int k = 0; k < LANES; k++)
            sums[k] = fused_real(weight, rows[i * width + k], sums[k]);
    }
}

/* Write the kernel values of a leaf's landmarks, m filled up to `wide`, and p products of two. */
INLINE void local_basis(whole wide, whole p, const float *numbers, const whole *pairs, whole d,
                        whole filled, const float *z, float *c, whole stride)
{
    const float *exponents = numbers + filled, *landmarks = exponents + wide;
    const float squares = local_squares(z, stride, numbers, filled);
    for (whole first = 0; first < wide; first += LANES) {
        float sums[LANES];
        UNROLL for (int k = 0; k < LANES; k++)
            sums[k] = exponents[first + k];
        local_combine(z, stride, landmarks + first, wide, d, sums);
        UNROLL for (int k = 0; k < LANES; k++) {
            const float power = sums[k] + squares;
            c[(first + k) * stride] = local_exponential(power < 0.0f ? power : 0.0f);
        }
    }
    for (whole i = 0; i < p; i++)
        c[(wide + i) * stride] = c[pairs[2 * i] * stride] * c[pairs[2 * i + 1] * stride];
}

/* Write the scores of a leaf's outputs to `totals`, filled up to `width` as the bias is. */
INLINE void local_totals(const float *bias, const float *c, whole count, whole width,
                         float *totals, whole stride)
{
    for (whole first = 0; first < width; first += LANES) {
        float sums[LANES];
        UNROLL for (int k = 0; k < LANES; k++)
            sums[k] = bias[first + k];
        local_combine(c, stride, bias + width + first, width, count, sums);
        UNROLL for (int k = 0; k < LANES; k++)
            totals[(first + k) * stride] = sums[k];
    }
}

/* Add `weight` times the scores of a scaled event of this leaf. c has room for kernel values,
   products and the leaf's outputs, each filled up. */
INLINE void local_add(const whole *leaf, float absent, const float *numbers, const whole *pairs,
                      const whole *outputs, whole d, whole filled, const float *z, float *c,
                      whole stride, float weight, whole n_outputs, float *scores)
{
    const whole m = leaf[0], p = leaf[1], q = leaf[2], *mine = outputs + leaf[5];
    const whole wide = (m + LANES - 1) / LANES * LANES, width = (q + LANES - 1) / LANES * LANES;
    const whole count = (wide + p + LANES - 1) / LANES * LANES;
    const float *bias = numbers + leaf[3] + filled + wide * (1 + d);
    float *totals = c + count * stride;
    if (n_outputs == 1) {
        local_basis(wide, p, numbers + leaf[3], pairs + 2 * leaf[4], d, filled, z, c, stride);
        for (whole i = wide + p; i < count; i++)
            c[i * stride] = 0.0f;
        scores[0] += weight * (bias[0] + local_product(c, stride, bias + width, count));
        return;
    }
    for (whole k = 0; k < n_outputs; k++)
        scores[k] += weight * absent;
    if (q == 1) {
        scores[mine[0]] -= weight * absent;
    } else {
        float less;
        local_basis(wide, p, numbers + leaf[3], pairs + 2 * leaf[4], d, filled, z, c, stride);
        local_totals(bias, c, wide + p, width, totals, stride);
        less = local_greatest(totals, stride, width) + absent;
        for (whole k = 0; k < q; k++)
            scores[mine[k]] += weight * (totals[k * stride] - less);
    }
}
