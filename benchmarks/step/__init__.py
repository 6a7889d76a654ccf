"""Predicting and learning, beside predicting alone and beside what else learns so.

The parts, each a module with `measure(...)` and `render(...)`:

one      one event: a step against a prediction
batch    batches of 256 against scikit-learn, single events against River
engine   the engine from memory
start    a fresh process up to its first event
"""
