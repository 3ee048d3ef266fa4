"""The headline of a state: one line of text, which names the largest effect of the state, with its count."""

from collections.abc import Iterator

from gdpo_core.board.effects import SAME, largest, not_raised, started, stopped
from gdpo_core.board.facts import BoardFacts, of_all
from gdpo_core.shared.words import listing, signed, word

_LONGEST = 60  # the most characters of a headline, which then fits in one line of the page
PUSHED_DOWN = -0.005  # an advantage of at most this is printed as a number below 0


def headline(facts: BoardFacts) -> str:
    """Return the first headline on the largest effect that has at most _LONGEST characters and so fits in a line."""
    return next(text for text in _headlines(facts) if len(text) <= _LONGEST)


def pushed_down(facts: BoardFacts) -> tuple[int, int]:
    """Return how many right answers have an advantage below 0 under the method on the left, and how many on the right.

    An advantage counts from −0.005 down, where it is printed as a number below 0. Both numbers are 0 where no reward
    says which answers are right.
    """
    right = facts.right or ()
    base, chosen = (
        sum(passed and a <= PUSHED_DOWN for passed, a in zip(right, side.advantages, strict=False))
        for side in (facts.base, facts.chosen)
    )
    return base, chosen


def _headlines(facts: BoardFacts) -> Iterator[str]:
    effect, base, chosen = largest(facts), facts.base, facts.chosen
    if facts.silent:
        yield "Nothing to learn here."
    elif effect == "silent":
        none, some = (base, chosen) if base.silent else (chosen, base)
        yield f"{none.name} teaches nothing here; {some.name} does."
    elif effect == "not raised":
        yield from _of_primary(facts)
    elif effect == "wrong order":
        yield from _of_order(facts)
    elif effect in ("stopped", "started"):
        yield from _of_pushes(facts, effect == "stopped")
    elif facts.difference < SAME:
        yield "Both methods agree."
    elif facts.same_order and facts.factor is not None:
        yield f"Same order; {chosen.name} takes {'longer' if facts.factor > 1 else 'shorter'} steps."
    elif facts.same_order:
        yield "Same order, unequal pushes."
    elif facts.open_pairs:
        yield from _of_right_and_wrong(facts)
    else:
        yield from _of_ties(facts)
    yield "The two methods put the answers in different orders."


def _of_primary(facts: BoardFacts) -> Iterator[str]:
    """Yield headlines on the methods that do not raise the primary reward, with the pairs in the wrong order."""
    k, these, pairs = facts.state.primary or 0, not_raised(facts), len(facts.pairs)
    first, raise_ = facts.state.name_of(k), facts.raises([k])
    many = [len(side.wrong_order) for side in these]
    if len(these) > 1:
        counts = f"{many[0]}" if many[0] == many[1] else f"{many[0]} and {many[1]}"
        yield f"Neither {raise_}s {first}: wrong over right in {counts} of {pairs} pairs."
        yield f"Neither {raise_}s {first}: wrong order in {counts} of {pairs} pairs."
        yield f"Neither {raise_}s {first}: wrong order in {counts} of {pairs}."
        yield f"Neither method helps: wrong order in {counts} of {pairs} pairs."
        yield f"Wrong order in {counts} of {pairs} pairs."
        return
    name = these[0].name
    turned = "lowers" if raise_ == "raise" else "raises"
    does = f"{turned} {first}" if facts.wished(these[0]) < 0 else f"does not {raise_} {first}"
    yield f"{name} {does}: wrong over right in {many[0]} of {pairs} pairs."
    yield f"{name} {does}: wrong order in {many[0]} of {pairs} pairs."
    yield f"{name} {does}: wrong order in {many[0]} of {pairs}."
    yield f"{name} does not help: wrong order in {many[0]} of {pairs}."


def _of_order(facts: BoardFacts) -> Iterator[str]:
    """Yield headlines on how many pairs each method puts in the wrong order, with the wrong answer first."""
    base, chosen = facts.base, facts.chosen
    before, after, pairs = len(base.wrong_order), len(chosen.wrong_order), len(facts.pairs)
    if before == after:
        yield f"Both methods rank wrong over right in {before} of {pairs} pairs."
    elif before:
        yield f"{base.name} ranks wrong over right in {before} of {pairs} pairs, {chosen.name} in {after or 'none'}."
        yield f"Wrong order in {before} of {pairs} pairs; in {after or 'none'} under {chosen.name}."
    else:
        yield f"{chosen.name} ranks wrong over right in {after} of {pairs} pairs, {base.name} in none."
        yield f"Wrong order in {after} of {pairs} pairs under {chosen.name}, else in none."
    yield f"Wrong order in {before} and {after} of {pairs} pairs."


def _of_pushes(facts: BoardFacts, falls: bool) -> Iterator[str]:
    """Yield headlines on the rewards that only one of the methods pushes as their weights ask.

    falls: whether it is the method on the left that does.
    """
    rewards, name = stopped(facts) if falls else started(facts), facts.chosen.name
    before, after = ([signed(x) for x in side.pushes] for side in (facts.base, facts.chosen))
    low, side = (after, facts.chosen) if falls else (before, facts.base)
    pushed = [k for k in rewards if facts.state.wish(k) * round(side.pushes[k], 2) > 0]
    clear = [k for k in rewards if k not in pushed] or rewards
    names, raises = listing(map(facts.state.name_of, clear)), f"{facts.raises(clear)}s"
    less = f"{'hardly' if clear == pushed else 'no longer'} {raises}"
    does = f"{name} {less} {{}}" if falls else f"Only {name} {raises} {{}}"
    if len(clear) == 1:
        yield f"{does.format(names)} (push {before[clear[0]]} to {after[clear[0]]})."
    yield f"{does.format(names)} ({', '.join(low[k] for k in clear)})." if falls else f"{does.format(names)}."
    yield f"{does.format(names)}."
    yield f"{does.format(f'{word(len(clear))} of {word(len(low))} rewards')}."


def _of_right_and_wrong(facts: BoardFacts) -> Iterator[str]:
    """Yield headlines on right and wrong answers that the method on the left ties.

    They say what the method on the right makes of these answers. The first headlines are about `facts.pile`, the
    answers of the one tie that the board outlines; the later ones are about all answers.
    """
    right, level, name = facts.right or (), facts.chosen.level, facts.chosen.name
    wrong = [i for i in facts.pile if not right[i]]
    passed = [i for i in facts.pile if right[i]]
    alone = len(wrong) == len(passed) == 1
    these = f"{_answers(len(wrong), 'wrong')} {{}} {_right_ones(len(passed))}"
    these = f"wrong answer {wrong[0] + 1} {{}} right answer {passed[0] + 1}" if alone else these
    if max(level[i] for i in wrong) < min(level[i] for i in passed):
        yield f"{facts.base.name} cannot tell {these.format('from')}."
        yield f"{facts.base.name} ties right and wrong answers; {name} does not."
    elif len({level[i] for i in facts.pile}) == 1:
        yield f"Both methods tie {these.format('with')}."
        yield "Both methods tie right and wrong answers."
    below = [i for i in passed if level[i] < max(level[j] for j in wrong)]
    was, now = facts.base.advantages, facts.chosen.advantages
    down = [i for i in below if now[i] <= PUSHED_DOWN < was[i]]
    if below == down and len(below) == 1:
        above = sum(level[j] > level[below[0]] for j in wrong)
        yield f"{name} pushes right answer {below[0] + 1} below {_wrong_ones(above)}."
    before, after = pushed_down(facts)
    if below and below == down and before < after:
        yield f"{name} pushes {_answers(after, 'right')} down, {facts.base.name} {word(before) if before else 'none'}."
    yield from _of_decided(facts)


def _of_decided(facts: BoardFacts) -> Iterator[str]:
    """Yield headlines on how many ties of a right and a wrong answer the method on the right decides, and how."""
    name, well, badly = facts.chosen.name, len(facts.well_broken), len(facts.badly_broken)
    ties = "right–wrong tie" if len(facts.open_pairs) == 1 else "right–wrong ties"
    start = f"Of {len(facts.open_pairs)} {ties} {name} decides"
    if well and badly:
        yield f"{start} {well} rightly, {badly} wrongly."
        yield f"{name} decides {well} ties rightly, {badly} wrongly."
    elif well or badly:
        many, how = (well, "rightly") if well else (badly, "wrongly")
        every = of_all(many, many, "right–wrong tie")
        yield f"{name} decides {every} {how}." if many == len(facts.open_pairs) else f"{start} {many} {how}."


def _of_ties(facts: BoardFacts) -> Iterator[str]:
    """Yield headlines on ties that are of no right and wrong answer, or on that there are none."""
    base, chosen, many = facts.base, facts.chosen, word(len(facts.pile))
    if not base.ties and chosen.ties:
        yield f"{chosen.name} ties {many} answers, {base.name} none."
    elif not base.ties:
        yield "No two kinds of answers share an advantage."
    elif len({chosen.level[i] for i in facts.pile}) == 1:
        yield f"{base.name} and {chosen.name} both tie {many} answers."
    else:
        spread = [chosen.advantages[i] for i in facts.pile]
        yield f"{base.name} ties {many} answers; {chosen.name} spreads them by {max(spread) - min(spread):.2f}."


def _answers(many: int, kind: str) -> str:
    """Return words for a number of right or wrong answers.

    kind: "right" or "wrong".

    >>> _answers(1, "right"), _answers(3, "wrong")
    ('a right answer', 'three wrong answers')
    """
    return f"a {kind} answer" if many == 1 else f"{word(many)} {kind} answers"


def _right_ones(many: int) -> str:
    """Return words for a number of right answers, for use where the word “answers” stands before.

    >>> _right_ones(1), _right_ones(3)
    ('a right one', 'three right ones')
    """
    return "a right one" if many == 1 else f"{word(many)} right ones"


def _wrong_ones(many: int) -> str:
    return "a wrong one" if many == 1 else f"{word(many)} wrong ones"
