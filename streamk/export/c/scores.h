
/* --- Scores ---------------------------------------------------------------------------------- */

/* Write the scores of an event x, MODEL_COLUMNS numbers of which NaN is missing: the number that is
   predicted; of two classes the logit of the second; or one for each class, whose exponentials are
   in proportion to the probabilities. Return 1; or 0, and write nothing, if a value is infinite. */
static inline int model_scores(const double *x, double *scores)
{
    float z[MODEL_FILLED], workspace[MODEL_WORKSPACE], sums[MODEL_OUTPUTS] = {0.0f};
    if (!model_scale(x, model_shift, model_factor, model_fill, MODEL_COLUMNS, MODEL_FILLED, z, 1))
        return 0;
    for (int tree = 0; tree < MODEL_TREES; tree++) {
        const int leaf = model_leaf(model_normals, model_offsets, model_children,
                                    model_roots[tree], MODEL_FILLED, z, 1);
        model_add(model_leaves + 6 * leaf, model_absent[leaf], model_numbers, model_pairs,
                  model_outputs, MODEL_COLUMNS, MODEL_FILLED, z, workspace, 1, 1.0f / MODEL_TREES,
                  MODEL_OUTPUTS, sums);
    }
    for (int k = 0; k < MODEL_OUTPUTS; k++)
        scores[k] = MODEL_MEAN + MODEL_DEVIATION * sums[k];
    return 1;
}
