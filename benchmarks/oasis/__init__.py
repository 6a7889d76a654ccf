"""oASIS against the methods and the figures of its paper, and what the paper does not have.

problems   the paper's kernel matrices
paper      its Tables I to III
methods    what is compared, by the names of the tables
accuracy   errors of approximations
rivals     the paper's update by BLAS in place, and pivoted Cholesky in NumPy
work       flops and bytes
explicit   Table I
speed      against the rivals
memory     peaks
implicit   Table II
million    Table III
curves     Figures 5 to 7, which `plots` draws
streams    landmarks that keep up with a stream
"""
