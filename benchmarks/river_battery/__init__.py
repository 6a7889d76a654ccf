"""Ours, River's models, Vowpal Wabbit, scikit-learn and CapyMOA on 25 streams.

streams     the streams, as tables of numbers
contestant  what takes part; ours, rivers, vowpal, batches, moa have them, field has them all
loop        predict, then learn, at once or late; units keeps what rivals answered
scores      what the answers are worth; compare, standing: ranks, intervals, goals
measure     all runs; tables prints them
speed       events/s against ARF, in turn
"""
