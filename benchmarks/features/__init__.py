"""Random features, their cosines and the prediction made of them, beside what else does that.

The parts, each a module with `measure(...)` and `render(...)`:

one      one event
batch    256 events
plain    both again without AVX-512, in processes of their own
"""
