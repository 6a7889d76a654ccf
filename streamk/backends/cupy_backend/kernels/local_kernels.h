/* Prediction by trees of small kernel models: one event a thread. The event's paths down the trees
   and its leaves are its own, so the threads of a block share nothing. */

#define LEAF 6

/* Blocks: (rows). What a thread works with, `size` numbers, lies interleaved with that of the
   others in `room`, (size, n). Scores of an event with an infinite value stay as they are. */
KERNEL local_scores(const double *__restrict__ X, whole n, whole d, whole filled,
                    const double *__restrict__ shift, const double *__restrict__ factor,
                    const double *__restrict__ fill, const real *__restrict__ normals,
                    const real *__restrict__ offsets, const whole *__restrict__ children,
                    const whole *__restrict__ roots, whole trees,
                    const real *__restrict__ absent, const whole *__restrict__ leaves,
                    const real *__restrict__ numbers, const whole *__restrict__ pairs,
                    const whole *__restrict__ outputs, real *__restrict__ room, whole n_outputs,
                    real *__restrict__ out, int *__restrict__ finite)
{
    PHASE(t) {
        const whole i = BLOCK_X * THREADS + t;
        if (i < n) {
            real *z = room + i;
            finite[i] = local_scale(X + i * d, shift, factor, fill, d, filled, z, n);
            if (finite[i]) {
                real *scores = out + i * n_outputs;
                for (whole k = 0; k < n_outputs; k++)
                    scores[k] = 0.0f;
                for (whole tree = 0; tree < trees; tree++) {
                    const whole leaf = local_leaf(normals, offsets, children, roots[tree], filled,
                                                  z, n);
                    local_add(leaves + LEAF * leaf, absent[leaf], numbers, pairs, outputs, d,
                              filled, z, z + filled * n, n, 1.0f / (real)trees, n_outputs, scores);
                }
            }
        }
    }
}
