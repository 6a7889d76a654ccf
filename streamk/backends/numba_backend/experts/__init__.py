"""Experts of a pool and their mixing, compiled: see `streamk.learners.multi_kernel.learner`.

One event goes through `event.forecast_one`, which evaluates all experts that are awake and mixes
them, and then through `event.update`, which lets the mixing and the experts learn the label: what
`banks` and `mixture` do. The rooms below them: `rules` (steps on dense features), `coin` (steps
without a rate), `ladder` (cosines of one projection at many bandwidths), `grids` (random binning),
`window` (kernel smoothing over the last events), `newton` (least squares, second order);
`calibration` (how sure an expert may be), `mixing` (experts into one prediction), `costs` (what
errors of numbers cost), `offsets` (from means to quantiles). `places` says where everything lies,
and `of` finds the arrays, as `streamk.backends.pool_arrays` declares them.

Numbers are float32 but for inputs and mixing; reassociation is allowed in the long sums, so results
are those of a machine, not of its batches: a row is always evaluated by itself.
"""
