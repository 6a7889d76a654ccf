"""The words of a field of free texts, and which of them have columns.

- A word is a run of letters, digits and underscores of any script, in lower case; one of more than
  256 bytes counts for nothing.
- A field becomes one of words with its 64th text of several words, between which there are spaces.
  It is one of categories for ever once 9 of these had come before, or texts of one word are three
  more than they.
- Words that three events have had get columns, all of them at once as soon as they are an eighth of
  those that have one, up to 1,024. So what is rare has none, and columns come in some 50 blocks.
- The events of each other word are counted. Where more than 4,096 words wait, each is taken to have
  had an event less, and those that had one are forgotten.

Pairs of neighbours, weights by rarity, counts instead of 1, and columns that other words share
by a hash were measured on messages, reviews, mails and a table with comments: with 1,024 columns
weights by rarity gain .2 to .4 points of accuracy over all four, for a fifth to two fifths of the
speed, and the others nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Self

from streamk.encoding.values import is_long

MOST_WORDS = 1024
"""Words of a field, at most, that have a column."""
TRIAL = 64
"""Texts of several words that make a field one of words."""
_REPEATED = 8
"""Texts of several words, of the first `TRIAL`, that may have come before."""
_SINGLE = 2
"""Texts of one word that may come beyond those of several."""
_EVENTS = 3
"""Events that a word has had when it may get a column."""
_PART = 8
"""New columns are at least one for so many that there are."""
_WAITING = 4096
"""Words without a column whose events are counted."""
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the different words of a text, in the order in which they come.

    >>> words_of("Refund me, REFUND 20 €!"), words_of("?!")
    (['refund', 'me', '20'], [])
    """
    words = _WORD.findall(unicodedata.normalize("NFC", text.lower()))
    return [word for word in dict.fromkeys(words) if not is_long(word)]


def is_word(text: str) -> bool:
    """Return whether a text is one word."""
    return _WORD.fullmatch(text) is not None


def has_several(text: str) -> bool:
    """Return whether there is a space between two parts of a text.

    >>> has_several("New York"), has_several("http://a.org/b?c=d-e ")
    (True, False)
    """
    return len(text.split(None, 1)) > 1


class Tally(NamedTuple):
    """The texts and words of a field so far, as its schema has them.

    Attributes
    ----------
    several, repeated, single : int
        Texts of several words, how many of these had come before, and texts of one word, while it
        is not known if the field is one of words.
    counts : dict of word to int
        Events of each word that waits for a column.
    """

    several: int
    repeated: int
    single: int
    counts: Mapping[str, int]

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return what was a list in JSON. Raises ValueError if it is none."""
        several, repeated, single, counts = data
        tally = cls(several, repeated, single, dict(counts))
        numbers = (several, repeated, single, *tally.counts.values())
        if not all(type(n) is int and 0 <= n <= TRIAL for n in numbers):
            raise ValueError(f"words are counted up to {TRIAL}")
        return tally


class Words:
    """The words of a field, or of one that may become one of words.

    Attributes
    ----------
    places : dict of word to int
        Columns.
    """

    def __init__(self, tally: Tally | None = None) -> None:
        self.places: dict[str, int] = {}
        self._several, self._repeated, self._single, counts = tally or (0, 0, 0, {})
        self._counts = dict(counts)
        self._ready = {word for word, n in counts.items() if n >= _EVENTS}
        """Words that may get a column."""

    @property
    def tally(self) -> Tally:
        """Return what is counted."""
        return Tally(self._several, self._repeated, self._single, dict(self._counts))

    def judge(self, text: str, *, is_new: bool) -> Literal["words", "text"] | None:
        """Count a text of a field on trial; return the kind of the field once that is clear."""
        self.note(words_of(text))
        if has_several(text):
            self._several += 1
            self._repeated += not is_new
        else:
            self._single += 1
        if self._repeated > _REPEATED or self._single - self._several > _SINGLE:
            return "text"
        return "words" if self._several == TRIAL else None

    def coming(self, words: Iterable[str]) -> list[str]:
        """Return the words that get a column with an event of these words, in their order."""
        room = MOST_WORDS - len(self.places)
        fresh = [word for word in words if self._counts.get(word) == _EVENTS - 1]
        least = max(1, min(len(self.places) // _PART, room))
        if len(self._ready) + len(fresh) < least:
            return []
        return sorted([*self._ready, *fresh])[:room]

    def add(self, word: str, place: int) -> None:
        """Give a word a column."""
        self.places[word] = place
        self._counts.pop(word, None)
        self._ready.discard(word)

    def note(self, words: Iterable[str]) -> None:
        """Count an event of words, unless no further one gets a column."""
        if len(self.places) >= MOST_WORDS:
            self._counts, self._ready = {}, set()
            return
        counts = self._counts
        for word in words:
            if word not in self.places:
                counts[word] = min(counts.get(word, 0) + 1, _EVENTS)
                if counts[word] == _EVENTS:
                    self._ready.add(word)
        if len(counts) > _WAITING:
            self._counts, self._ready = {word: n - 1 for word, n in counts.items() if n > 1}, set()
