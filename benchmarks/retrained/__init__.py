"""The default model beside trees that are trained anew every thousand events, and trained once.

trees         trees of LightGBM and scikit-learn, trained anew while a stream goes by
contestants   these, CapyMOA's boosted trees, and ours with its defaults and without a metric
progressive   all of them on the battery's streams, each event predicted before it is learned
last_tenth    trees trained once on nine tenths of a stream, beside the default model on the last
"""
