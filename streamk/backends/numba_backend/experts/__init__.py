"""Experts of a pool and their mixing, compiled: see `streamk.learners.multi_kernel.multi_kernel`.

`event.forecast_one` evaluates all active experts on one event and mixes them; `event.update` then
learns the label. Both call two rooms. `banks` evaluates and trains the experts: `rules` (steps on
dense features), `coin_betting` (steps without a rate), `ladder` (cosines of one projection at many
bandwidths), `grids` (random binning), `window` (kernel smoothing over the last events), `newton`
(least squares, second order), `level` (the constant kernel). `mixing` combines them: `two_stage`
(experts into one prediction), `calibration` (the scale of an expert's logits), `costs` (losses of
numbers), `offsets` (from means to quantiles), `spread` (intervals). `layout.slot` holds the places
of sizes and arrays in a pool's table, `layout.view` makes the arrays, as
`streamk.backends.pool_arrays` declares them.

Numbers are float32 but for inputs and mixing; reassociation is allowed in the long sums, so results
are those of a machine, not of its batches: a row is always evaluated by itself.
"""
