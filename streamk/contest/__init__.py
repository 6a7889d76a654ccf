"""A champion that predicts, and challengers that learn beside it."""

from streamk.contest.contest import Contest

__all__ = ["Contest"]
