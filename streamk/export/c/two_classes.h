
/* The class of an event x, its place in model_classes; -1 if a value is infinite. */
static inline int model_predict(const double *x)
{
    double score;
    return model_scores(x, &score) ? score + model_log_weights[0] > 0.0 : -1;
}

/* Write the probabilities of both classes; return 1, or 0 if a value is infinite. */
static inline int model_probabilities(const double *x, double *p)
{
    double score, power, less;
    if (!model_scores(x, &score))
        return 0;
    power = model_double_exponential(score > 0.0 ? -score : score);
    less = power / (1.0 + power);
    p[0] = score > 0.0 ? less : 1.0 - less;
    p[1] = 1.0 - p[0];
    return 1;
}
