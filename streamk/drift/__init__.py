"""Tests whether a stream has changed, which may be looked at after every event.

A test of this room bets against the hypothesis that nothing has changed, and its wealth is a
martingale if that is true. That takes p-values which are independent and uniform, whatever the law
of the events. Why those of `StreamingMMD` are:

Let H be everything that has been revealed before a test event x: the training events, the events
that have left the reference sample R, the numbers drawn, and the p-values of *one* witness.
Claim: given H, the m events of R are independent and of the law of the stream. So are then the m
+ 1 events of B, which are R and x, as a set; and given the set, x is each of them with equal
probability. The witness is a function of H, so the rank of x in it, with ties broken at random,
is uniform, and independent of the set B. Which event leaves B is drawn evenly, also x may,
independently of the rank. So given H, the p-value and the event that leaves, the rest of B are m
independent events of that law: the claim holds again. Where the sample is not full yet none
leaves, and the same holds. For exchangeable streams it holds given the law, by de Finetti's
theorem.

Therefore a function of the p-value whose integral is 1, chosen by the p-values before, has the
expectation 1 given H, and a weighted mean of products of such functions from any starts, with what
is kept for later ones, is a martingale that begins at 1. By Ville's inequality it ever reaches
9/alpha with probability alpha/9 at most. The nine witnesses share a sample, and their p-values
together would reveal it; so their martingales are not averaged, but each has a ninth of alpha.

All else that is learned (scales of the columns, unit of the bandwidths, of `EventMMD` the columns
themselves) is learned from training events, and the number of features depends on the number of
events. What an event is as a point is a function of it and of training events alone.
"""

from streamk.drift.event_mmd import EventMMD
from streamk.drift.rise import RankTest, ShareTest
from streamk.drift.streaming_mmd import StreamingMMD

__all__ = ["EventMMD", "RankTest", "ShareTest", "StreamingMMD"]
