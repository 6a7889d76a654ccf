"""Where the arrays of a pool lie: sizes, then addresses of arrays, in one table of int64.

d columns, m random features, S bandwidths, K outputs (1 for two classes and for numbers) of which
there is room for K' where it is said, C classes (1 for numbers), T tables of G groups, E experts, N
events in the window, X mixers, Q rules side by side in a cell, `grids.RULES`. Arrays are float64
unless it is said.
"""

TASK = 0
COLUMNS = 1
FEATURES = 2
BANDWIDTHS = 3
OUTPUTS = 4
CLASSES = 5
TABLES = 6
GROUPS = 7
MEMBERS = 8
SLOTS = 9
EXPERTS = 10
WINDOW = 11
COUNT = 12
"""Events in the window so far."""
NEXT = 13
"""Row of the window that the next event takes."""
LINEAR_RULES = 14
LADDER_RULES = 15
GRID_RULES = 16
"""Rules that are experts, at most Q; the others in a cell are not used."""
NEWTON = 17
"""Features of the second-order expert; 0 without it."""

CENTER = 18
INVERSE = 19
KNOTS = 20
INDICATOR = 21
"""bool (d,)"""
AWAKE = 22
"""bool (banks,)"""

Z = 23
"""float32 (d + 1,), the last one 1"""
R = 24
"""float32 (d,)"""
U = 25
"""float32 (m,)"""
PHI = 26
"""float32 (S, m)"""
CELLS = 27
"""int32 (T,)"""
DISTANCES = 28
"""float32 (N,)"""
F = 29
"""float32 (E, K): outputs of the experts"""
SUMS = 30
"""float32 `window.room`"""

LINEAR_A = 31
"""float32 (rules, K', d + 1)"""
LINEAR_SQUARES = 32
LINEAR_RATES = 33
LINEAR_KINDS = 34
"""int64 (rules,)"""
PROJECTION = 35
"""float32 (d, m)"""
PHASES = 36
"""float32 (m,)"""
SCALES = 37
LADDER_A = 38
"""float32 (S, rules, K', m)"""
LADDER_SQUARES = 39
LADDER_RATES = 40
LADDER_KINDS = 41
STARTS = 42
"""int64 (G + 1,): where a group's columns start among the members. The members of a group lie as
(columns of a table, tables of the group)."""
MEMBERS_OF = 43
"""int32 (members,): columns"""
SHIFTS = 44
"""float32 (members,), in [0, 1)"""
BINS = 45
"""float32 (T,)"""
FIRST = 46
"""int32 (T + 1,): a table's first cell"""
GROUP = 47
"""int64 (G + 1,): where a group's tables start"""
FACTORS = 48
"""float32 (T, Q)"""
SPREAD = 49
"""float32 (T, Q)"""
CELLS_A = 50
"""float32 (slots, `grids.line` of K'), on a multiple of 64 bytes: for each output the coefficients
of Q rules, then from Q K' on their sums of squared slopes, then nothing"""
MULTIPLIERS = 51
"""int32 (members,): strides of the bins, of a table with a cell for each of them; else random"""
GRID_RATES = 52
"""float32 (T, Q), 0 for a rule that is not used"""
GRID_PACES = 53
"""float32 (T, Q)"""
WINDOW_Z = 54
"""float32 (d, N)"""
WINDOW_Y = 55
"""float32 (N,)"""
NEWTON_A = 56
"""float32 (K, features)"""
NEWTON_P = 57
"""float32 (features, features)"""
NEWTON_STEP = 58
"""float32 (features,)"""
G = 59
"""float32 (E, K): slopes; before the label is known, what they are made of"""

SHARES = 60
"""(shares, E)"""
ALPHAS = 61
PRODUCTS = 62
"""(products, E): weights"""
LEVELS = 63
"""Knots of a column"""
DISTANCE = 64
"""(1,): median distance of scaled events"""
MIXERS_SHARE = 65
MIXERS_PRODUCT = 66
ON = 67
"""(E,): 0 where an expert sleeps, else 1"""
ALL = 68
"""(X,), all 1"""
ABOVE = 69
"""(X,): exp(-loss / 4) of the mixers"""
FORGETS = 70
"""(products,)"""
NEWTON_ROOM = 71
"""(E,)"""
SLOPES = 72
"""(E,)"""
OUT = 73
"""(K,)"""
LEVEL = 74
"""float32 (rates, C)"""
BANKS = 75
"""int64 (E,): the bank of each expert"""
ACCOUNT = 76
"""(banks + 3,): what the lack of each bank would have cost, what was lost, and of how many"""
INVERSES = 77
"""(products, E, E)"""
PRODUCT_RATES = 78
PRODUCT_STARTS = 79
"""(products,): the largest inverse; 0 where steps are along the gradient"""
TOP = 80
"""(X,)"""
MIXED = 81
"""(X, K)"""
OPINIONS = 82
"""(E, K): probabilities or numbers"""
LOSSES = 83
"""(E,): exp(-loss / 4)"""
ROOM = 84
"""(K,)"""

WEIGHTS = 85
"""float32 (2, N)"""
DOWN = 86
"""int32 (T,): by how many bits a table's sum is shifted down to the number of its cell"""
GATHERED = 87
"""float32 (T, Q): coefficients of the event's cells, if there is one output"""
CELL_SLOPES = 88
"""float32 (T, Q)"""
CELL_SQUARES = 89
"""float32 (T, Q)"""
CELL_STEPS = 90
"""float32 (T, Q)"""
SIDE = 91
"""float32 (G, `grids.line`): outputs or slopes, laid out as a cell is"""
SEEN = 92
"""float32 (E, K): opinions of the event in the pool's room, of no use where ON is 0"""
FRESH = 93
"""Whether OPINIONS and MIXED are of SEEN and of the weights as they are."""

OF_ALL = 94
"""bool (G,): whether a group's tables are of all columns"""
TAKEN = 95
"""float32 (Q,): squares of slopes"""
LOSS = 96
"""By which numbers are learned and mixed: one of the kinds in `costs`."""
LOSS_PARAMETER = 97
"""(1,)"""
TRACKED = 98
"""(2, E + 1), of quantiles alone: see `offsets`"""
PINBALL = 99
"""bool (E,), of quantiles alone: which experts descend the pinball loss"""
LINEAR_BETS = 100
"""float32 (K, d + 1), of the rule that bets, as are the two after it"""
LINEAR_GAINS = 101
LINEAR_LARGEST = 102
CALIBRATED = 103
"""(E, K): probabilities or numbers of opinions times factors"""
LOUDNESS = 104
"""(E,): the factors"""
CURVATURES = 105
"""(E,): discounted sums of the second derivatives of the experts' losses in them"""
MIXERS = 106
"""X: fixed shares, products of experts, and the product of these"""
SAID = 107
"""float32 (X - 1, K): opinions of all mixers but the last"""
LAST_PRODUCT = 108
"""(X - 1,): weights of the last mixer"""
LAST_INVERSE = 109
"""(X - 1, X - 1)"""
KEPT = 110
"""float32 (E + X + 1, K): SEEN, with NaN where an expert sleeps; MIXED; OUT"""
GUESTS = 111
"""Experts whose outputs come from elsewhere: the last ones, which never sleep."""
OUTPUT_ROOM = 112
"""K': outputs that there is room for, those that are not used being zero."""

LOOK, SAY, MIX, WEIGH, DESCEND = range(113, 118)
"""Addresses of the stages that an event goes through, see `stages`."""

SIZE = 118
