"""Experts of a pool and their mixing, compiled: see `streamk.learners.multi_kernel.multi_kernel`.

`event.forecast_one` evaluates all active experts on one event and mixes them; `event.update` then
learns the label; `event.predict_then_learn` does both for one event after the other. `all_banks`
calls the loops of all kinds of experts, each of which has a file: `linear`, `gaussian` (a ladder of
bandwidths), `binning`, `window` (kernel smoothing over the last events), `newton` (recursive least
squares) and `constant` (levels of the label); `columns` has what they look at. `expert_predictions`
has their scores, the scale of their logits and the way from means to quantiles, `two_stage` the
mixers and the losses of numbers, `mixture` all that is mixed, `spread` intervals. `slot` holds the
places of sizes and arrays in a pool's table, `view` makes the arrays, as
`streamk.backends.pool_arrays` declares them.

Numbers are float32 but for inputs and mixing; reassociation is allowed in the long sums, so results
are those of a machine, not of its batches: a row is always evaluated by itself.
"""
