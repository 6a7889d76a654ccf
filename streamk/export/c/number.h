
/* The number predicted of an event x; NaN if a value is infinite. */
static inline double model_predict(const double *x)
{
    double score;
    return model_scores(x, &score) ? score : NAN;
}
