"""The evaluation of conditions on a configuration: each holds, does not hold, or cannot be told."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gdpo_core.checking.readers.sources import Entry, Unread
from gdpo_core.checking.rules import Condition

_WORDS = {"true": True, "false": False}


class Known:
    """The entries of a configuration as its trainer sees them.

    entries: the entries by key, with today's names of the keys.
    defaults: the values of keys that are not given.
    complete: whether every file on which the configuration builds was given. If not, the value of a missing key cannot
        be told.
    version: the version of the trainer, None where it is not known.
    undecided: the keys whose values are not told, as keys that the trainer does not have may decide them, with these.
    """

    def __init__(
        self,
        entries: Mapping[str, Entry],
        defaults: Mapping[str, Any],
        complete: bool = True,
        version: str | None = None,
        undecided: Mapping[str, str] | None = None,
    ) -> None:
        self.entries, self.defaults, self.complete, self.version = entries, defaults, complete, version
        self.undecided = undecided or {}

    def value(self, key: str) -> Any:
        """Return the value of a key, else its default, else None.

        An `Unread` stands for a value that only a run would tell. It is also returned in place of a default where the
        key may stand in a file that was not given.
        """
        if key in self.undecided:
            return Unread(self.undecided[key], maybe=True)
        if key in self.entries:
            return self.entries[key].value
        return self.defaults.get(key) if self.complete else Unread("")

    def values(self, key: str) -> Any:
        """Return the value of a key as a list; a value that is no list becomes a list with one entry.

        None and `Unread` come back as they are.
        """
        value = self.value(key)
        return value if value is None or isinstance(value, list | Unread) else [value]

    def holds(self, conditions: Sequence[Condition]) -> bool | None:
        """Return whether all conditions hold; None where none fails and at least one cannot be told."""
        answers = [self._holds(condition) for condition in conditions]
        if False in answers:
            return False
        return None if None in answers else True

    def _holds(self, c: Condition) -> bool | None:
        if "*" in c.key and c.set is False:
            return not any(fnmatchcase(key, c.key) for key in self.entries) if self.complete else None
        if "*" in c.key:
            answers = [self._holds_of(key, c) for key in self.entries if fnmatchcase(key, c.key)]
            if True in answers:
                return True
            # A key that only has to be there is a rare one, so a file that was not given is taken not to have it.
            others_may = not self.complete and c.set is None
            return None if None in answers or others_may else False
        return self._holds_of(c.key, c)

    def _holds_of(self, key: str, c: Condition) -> bool | None:
        value = self.value(key)
        maybe = isinstance(value, Unread) and value.maybe
        if c.set is not None and not maybe and (key in self.entries or self.complete):
            given = key in self.entries and value is not None
            return given == c.set
        if weights := c.even or c.uneven:
            even = _even(value, self.values(weights), weighted=key != weights)
            return even is (c.uneven is None)
        if isinstance(value, Unread):
            return None
        return _test(value, c, self)


def _even(rewards: Any, weights: Any, weighted: bool) -> bool | None:
    """Return whether GDPO has nothing to learn from a group in which the sum of these rewards is constant.

    If w₁r₁ + w₂r₂ is constant, r₁ and r₂ have z-scores of one size, and GDPO's sum is 0 just where |w₁| = |w₂|. With
    three rewards or more it can be anything. A weight of 0 takes a reward out of both sums. The result is None if the
    rewards or their weights cannot be told.

    rewards: a name for each reward, or one for all.
    weights: a number per reward; None if each is 1.
    weighted: whether the constant sum has the weights too; else it is the plain sum.
    """
    names = rewards if isinstance(rewards, list) else [rewards]
    numbers = [1] * len(names) if weights is None else weights
    if rewards is None or isinstance(rewards, Unread) or not isinstance(numbers, list) or len(numbers) != len(names):
        return None
    if not all(isinstance(w, int | float) and not isinstance(w, bool) for w in numbers):
        return None
    counted = [abs(w) for w in numbers if w] if weighted else numbers
    return len(counted) < 2 or (len(counted) == 2 and counted[0] == counted[1])


def _test(value: Any, c: Condition, known: Known) -> bool | None:
    entries = [] if value is None else value if isinstance(value, list) else [value]
    if c.no_multiple_of:
        divisor = known.value(c.no_multiple_of)
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in (value, divisor))
        return whole and value % divisor != 0
    if compared_key := c.longer_than or c.shorter_than:
        theirs = known.values(compared_key)
        if isinstance(theirs, Unread):
            return None
        both = value is not None and theirs is not None
        return both and (len(entries) > len(theirs) if c.longer_than else len(entries) < len(theirs))
    return _compare(value, entries, c)


def _compare(value: Any, entries: Sequence[Any], c: Condition) -> bool:
    """Return whether a value fits the one comparison with something fixed that a condition makes.

    entries: the entries of the value, if it is a list; else the value alone.
    """
    text = str(value)
    if c.equals is not None:
        return same(value, c.equals)
    if c.differs is not None:
        return not same(value, c.differs)
    if c.one_of:
        return any(same(value, choice) for choice in c.one_of)
    if c.not_one_of:
        return not any(same(value, choice) for choice in c.not_one_of)
    if c.holds is not None:
        return any(same(entry, c.holds) for entry in entries)
    if c.lacks is not None:
        return not any(same(entry, c.lacks) for entry in entries)
    if c.like is not None:
        return re.search(c.like, text) is not None
    if c.unlike is not None:
        return re.search(c.unlike, text) is None
    if c.above is not None:
        return isinstance(value, int | float) and not isinstance(value, bool) and value > c.above
    if c.repeats is not None:
        return (len(set(map(str, entries))) < len(entries)) == c.repeats
    return (len(entries) > 1) == c.several


def same(value: Any, expected: Any) -> bool:
    """Return whether two values of a configuration mean the same.

    The case of a text does not matter, and "true" is True. A truth value is never the same as a number.

    >>> same("GDPO", "gdpo"), same("False", False), same(1, True), same(1, 1.0)
    (True, True, False, True)
    """
    value, expected = (_WORDS.get(x.lower(), x.lower()) if isinstance(x, str) else x for x in (value, expected))
    return isinstance(value, bool) == isinstance(expected, bool) and value == expected


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a version; letters after a number do not count, nor does a part that begins with a letter.

    >>> version_of("0.9.1"), version_of("v0.21.0rc1") < version_of("0.21.1")
    ((0, 9, 1), True)
    """
    return tuple(int(digits[0]) for digits in (re.match(r"\d+", p) for p in text.lstrip("v").split(".")) if digits)


def in_force(since: str, until: str, version: str | None) -> bool | None:
    """Return whether a version is `since` or later, and earlier than `until`; "" sets no bound.

    Three numbers of a version are compared. The result is None where a bound is set and no version is given.

    >>> in_force("0.9", "", "0.9.1"), in_force("", "0.21", "0.21.0"), in_force("0.9", "", None), in_force("", "", None)
    (True, False, None, True)
    """
    if not since and not until:
        return True
    if version is None:
        return None
    at = _padded(version)
    return (not since or at >= _padded(since)) and (not until or at < _padded(until))


def _padded(version: str) -> tuple[int, ...]:
    return (*version_of(version), 0, 0, 0)[:3]
