"""The compiler's room: all that reaches into the private parts of numba or LLVM is here.

No other module may import `numba.core` or `numba.np`; a test holds that. A loop needs the
decorators of `compiling` and, for vectors that numba does not find, the functions of `lanes`.

What each part is for, and what it gains for the default model on a machine of two cores:

====================  ===========================================================================
`cache.stamp`         Code is compiled again when any file that it was made from has changed. numba
                      looks at the function's own file alone. Needed to be right.
`cache.Loaded`        Machine code comes from the cache without its LLVM instructions, which only a
                      further compilation needs: 33 MB of the 167 that a job on elec2 holds.
`cache._lighten`      Loading waits for nothing that only compilation needs: .1 of .65 s until the
                      first event, and 12 MB.
`parts`               What only compiled functions call has no code of its own: a first use compiles
                      for 30 s of the processor in place of 43.
`compiling.Stage`     A function that others call by its address is compiled once, not in each, and
                      found in the cache by itself.
`compiling._Counter`  A first use tells how far it is.
`lanes`               Vectors as values of compiled functions: the innermost loops, which LLVM does
                      not find by itself. Each function has a plain twin, which is tested equal.
`vectors.Emitter`     Writes the instructions of `lanes`, and of landmarks' tiles.
`memory.give_back`    (`streamk.backends.memory`) drops the pages of LLVM that were read while loops
                      were loaded: 50 MB of 185.
====================  ===========================================================================

`pyproject.toml` names the versions of numba that have these names.
`tests/backends/test_compiling.py` fails where one has not, and runs at night with the newest one.
"""
