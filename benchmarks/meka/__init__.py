"""MEKA against its paper's six rivals and the figures of its paper, and block kernels.

problems   the paper's kernel matrices
paper      its Tables 2, 3, 5, 7 and 8
accuracy   errors on sampled rows
rivals     the six, at the memory of MEKA
runs       MEKA and the rivals, one after the other
errors     Table 7
stages     Table 5
ranks      Table 3
headline   10% relative error on covtype, and its 581,012 rows
ridge      Table 8
vectors    products with vectors
machines   Table 2
structure  Figures 1c, 2 and 3
sweeps     Figures 4 to 10 and 13
curves     all of them, which `plots` draws
"""
