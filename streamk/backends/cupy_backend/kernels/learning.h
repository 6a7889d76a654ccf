/* Losses' gradients and steps on coefficients: a thread has a row, or a number of an array. */

#define SQUARED 0
#define HINGE 1
#define SQUARED_HINGE 2
#define LOGISTIC 3
#define SOFTMAX 4
#define HUBER 5
#define EPSILON_INSENSITIVE 6

#define AT (BLOCK_X * THREADS + t)

/* Parts that are read before they are added up. The sum's order is theirs, but a thread that waits
   for one part after the other takes as long as the memory's way there for each. */
#define AHEAD 16

/* total + part, for parts `stride` apart, in their order. */
INLINE real added(real total, const real *parts, whole count, whole stride)
{
    whole p = 0;
    for (; p + AHEAD <= count; p += AHEAD) {
        real some[AHEAD];
        UNROLL for (int q = 0; q < AHEAD; q++)
            some[q] = parts[(p + q) * stride];
        UNROLL for (int q = 0; q < AHEAD; q++)
            total += some[q];
    }
    for (; p < count; p++)
        total += parts[p * stride];
    return total;
}

/* acc += each chunk's sums, in the order of the chunks. */
KERNEL add_sums(const real *__restrict__ sums, whole chunks, whole size, real *__restrict__ acc)
{
    PHASE(t) {
        if (AT < size)
            acc[AT] = added(acc[AT], sums + AT, chunks, size);
    }
}

INLINE double summed(const real *lanes, double factor)
{
    double total = 0.0;
    for (int i = 0; i < LANES; i++)
        total += lanes[i];
    return total * factor;
}

KERNEL finish(const real *__restrict__ acc, double factor, whole size, double *__restrict__ F)
{
    PHASE(t) {
        if (AT < size)
            F[AT] = summed(acc + AT * LANES, factor);
    }
}

/* The derivative in f of a loss of one output measured against y. */
INLINE double slope(whole code, double p, double f, double y)
{
    const double r = f - y;
    if (code == SQUARED)
        return r;
    if (code == HINGE)
        return y * f < 1.0 ? -y : 0.0;
    if (code == SQUARED_HINGE)
        return y * f < 1.0 ? -y * (1.0 - y * f) : 0.0;
    if (code == LOGISTIC) {
        const double e = exp(-fabs(f));
        return -y * ((y * f <= 0.0 ? 1.0 : e) / (1.0 + e));
    }
    if (code == HUBER)
        return r < -p ? -p : r > p ? p : r;
    if (code == EPSILON_INSENSITIVE)
        return fabs(r) <= p ? 0.0 : r > 0.0 ? 1.0 : -1.0;
    return r == 0.0 ? 0.0 : r > 0.0 ? 1.0 - p : -p;
}

INLINE void softmax_slopes(const double *f, whole outputs, whole truth, double weight, real *g)
{
    double top = f[0], total = 0.0;
    for (whole k = 1; k < outputs; k++)
        top = f[k] > top ? f[k] : top;
    for (whole k = 0; k < outputs; k++)
        total += exp(f[k] - top);
    for (whole k = 0; k < outputs; k++)
        g[k] = (real)(weight * (exp(f[k] - top) / total - (k == truth ? 1.0 : 0.0)));
}

INLINE void crammer_singer_slopes(int squared, const double *f, whole outputs, whole truth,
                                  double weight, real *g)
{
    whole best = truth == 0 ? 1 : 0;
    double margin;
    for (whole k = 0; k < outputs; k++) {
        g[k] = (real)0;
        if (k != truth && f[k] > f[best])
            best = k;
    }
    margin = 1.0 + f[best] - f[truth];
    if (margin > 0.0) {
        const double s = weight * (squared ? margin : 1.0);
        g[truth] = (real)-s;
        g[best] = (real)s;
    }
}

INLINE void row_gradient(whole code, double p, whole classes, const double *f, whole outputs,
                         double y, double weight, real *g)
{
    if (code == SOFTMAX) {
        softmax_slopes(f, outputs, (whole)y, weight, g);
    } else if (outputs > 1 && (code == HINGE || code == SQUARED_HINGE)) {
        crammer_singer_slopes(code == SQUARED_HINGE, f, outputs, (whole)y, weight, g);
    } else {
        for (whole k = 0; k < outputs; k++) {
            double target = y;
            if (classes)
                target = (outputs == 1 ? y == 1.0 : y == (double)k) ? 1.0 : -1.0;
            g[k] = (real)(weight * slope(code, p, f[k], target));
        }
    }
}

KERNEL loss_gradient(whole code, double p, whole classes, const double *__restrict__ F,
                     const double *__restrict__ y, double weight, whole n, whole outputs,
                     real *__restrict__ G)
{
    PHASE(t) {
        if (AT < n)
            row_gradient(code, p, classes, F + AT * outputs, outputs, y[AT], weight,
                         G + AT * outputs);
    }
}

/* What stands between predicting and descending: F, whether one overflowed, and G. Who finds an
   overflow writes the same 1 as all others. */
KERNEL settle(const real *__restrict__ acc, double factor, whole code, double p, whole classes,
              const double *__restrict__ y, double weight, whole n, whole outputs,
              double *__restrict__ F, int *__restrict__ overflowed, real *__restrict__ G)
{
    PHASE(t) {
        if (AT < n) {
            double *f = F + AT * outputs;
            for (whole k = 0; k < outputs; k++) {
                f[k] = summed(acc + (AT * outputs + k) * LANES, factor);
                if (!(fabs(f[k]) <= 1.7976931348623157e308))
                    *overflowed = 1;
            }
            row_gradient(code, p, classes, f, outputs, y[AT], weight, G + AT * outputs);
        }
    }
}

/* out = the sum of the segments, in their order. */
KERNEL add_segments(const real *__restrict__ parts, whole segments, whole size,
                    real *__restrict__ out)
{
    PHASE(t) {
        if (AT < size)
            out[AT] = added(parts[AT], parts + size + AT, segments - 1, size);
    }
}

/* A -= rate * g of the features from start to stop, g being the sum of its segments, or AdaGrad's
   step where there are squares; nothing if a prediction overflowed. */
KERNEL descend(real *__restrict__ A, real *__restrict__ squares, const real *__restrict__ g,
               whole segments, whole size, whole outputs, double rate, whole start, whole stop,
               const int *__restrict__ overflowed)
{
    PHASE(t) {
        const whole feature = AT / CHUNK / outputs * CHUNK + AT % CHUNK;
        if (AT < size && feature >= start && feature < stop && !(overflowed && *overflowed)) {
            real d = added(g[AT], g + size + AT, segments - 1, size);
            if (squares) {
                const real s = squares[AT] + d * d;
                squares[AT] = s;
#if REAL_IS_DOUBLE
                d /= sqrt(s) + 1e-8;
#else
                d /= sqrtf(s) + 1e-8f;
#endif
            }
            A[AT] -= (real)rate * d;
        }
    }
}
