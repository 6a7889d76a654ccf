
/* The class of an event x, its place in model_classes; -1 if a value is infinite. */
static inline int model_predict(const double *x)
{
    double scores[MODEL_CLASSES];
    int best = 0;
    if (!model_scores(x, scores))
        return -1;
    for (int k = 1; k < MODEL_CLASSES; k++)
        if (scores[k] + model_log_weights[k] > scores[best] + model_log_weights[best])
            best = k;
    return best;
}

/* Write the probability of each class; return 1, or 0 if a value is infinite. */
static inline int model_probabilities(const double *x, double *p)
{
    double scores[MODEL_CLASSES], best, total = 0.0;
    if (!model_scores(x, scores))
        return 0;
    best = scores[0];
    for (int k = 1; k < MODEL_CLASSES; k++)
        best = scores[k] > best ? scores[k] : best;
    for (int k = 0; k < MODEL_CLASSES; k++) {
        p[k] = model_double_exponential(scores[k] - best);
        total += p[k];
    }
    for (int k = 0; k < MODEL_CLASSES; k++)
        p[k] /= total;
    return 1;
}
