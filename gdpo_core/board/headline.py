"""The headline of a state: one line of text, which is chosen by the state's facts and is true of them."""

from collections.abc import Iterator

from gdpo_core._words import word
from gdpo_core.board.facts import Facts, of_all

LONGEST = 60  # the most characters of a headline, which then fits in one line of the page
SAME = 0.01  # advantages that differ by less than this are the same for a reader
PUSHED_DOWN = -0.005  # an advantage of at most this is printed as a number below 0


def headline(facts: Facts) -> str:
    """Return the first headline that is true of the state and has at most LONGEST characters, so that it fits in a
    line.
    """
    return next(text for text in _headlines(facts) if len(text) <= LONGEST)


def pushed_down(facts: Facts) -> tuple[int, int]:
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


def _headlines(facts: Facts) -> Iterator[str]:
    base, chosen = facts.base, facts.chosen
    if facts.silent:
        yield "Nothing to learn here."
    elif base.silent or chosen.silent:
        none, some = (base, chosen) if base.silent else (chosen, base)
        yield f"{none.name} teaches nothing here; {some.name} does."
    elif facts.difference < SAME:
        yield "Both methods agree."
    elif facts.same_order and facts.factor is not None:
        yield f"Same order; {chosen.name} takes {'longer' if facts.factor > 1 else 'shorter'} steps."
    elif facts.same_order:
        yield "Same order, unequal pushes."
    elif set(facts.pile) & {answer for pair in facts.open_pairs for answer in pair}:
        yield from _of_right_and_wrong(facts)
    elif not base.ties and chosen.ties:
        yield f"{chosen.name} ties {word(len(facts.pile))} answers, {base.name} none."
    else:
        yield from _of_order(facts)
    yield "The two methods put the answers in different orders."


def _of_right_and_wrong(facts: Facts) -> Iterator[str]:
    """Yield headlines on right and wrong answers that the method on the left ties.

    They say what the method on the right makes of these answers. The first headlines are about `facts.pile`, the
    answers of the one tie that the board outlines; the later ones are about all answers.
    """
    right, level, name = facts.right or (), facts.chosen.level, facts.chosen.name
    wrong = [i for i in facts.pile if not right[i]]
    passed = [i for i in facts.pile if right[i]]
    these = f"{_answers(len(wrong), 'wrong')} from {_right_ones(len(passed))}"
    if max(level[i] for i in wrong) < min(level[i] for i in passed):
        yield f"{facts.base.name} cannot tell {these}."
        yield f"{facts.base.name} ties right and wrong answers; {name} does not."
    elif len({level[i] for i in facts.pile}) == 1:
        yield f"Neither method tells {these}."
        yield "Both methods tie right and wrong answers."
    below = [i for i in passed if level[i] < max(level[j] for j in wrong)]
    was, now = facts.base.advantages, facts.chosen.advantages
    down = [i for i in below if now[i] <= PUSHED_DOWN < was[i]]
    if below == down and len(below) == 1 and _odd(facts, below[0]):
        yield f"Here the odd one out is right, and {name} pushes it down."
    before, after = pushed_down(facts)
    if below and below == down and before < after:
        yield f"{name} pushes {_answers(after, 'right')} down, {facts.base.name} {_none(before)}."
    ties = "right–wrong tie" if len(facts.open_pairs) == 1 else "right–wrong ties"
    well, badly = len(facts.well_broken), len(facts.badly_broken)
    start = f"Of {len(facts.open_pairs)} {ties} {name} decides"
    if well and badly:
        yield f"{start} {well} rightly, {badly} wrongly."
        yield f"{name} decides {well} ties rightly, {badly} wrongly."
    elif well or badly:
        many, how = (well, "rightly") if well else (badly, "wrongly")
        every = of_all(many, many, "right–wrong tie")
        yield f"{name} decides {every} {how}." if many == len(facts.open_pairs) else f"{start} {many} {how}."


def _of_order(facts: Facts) -> Iterator[str]:
    """Yield headlines on how many pairs each method puts in the wrong order.

    If both methods put equally many there, the last headline is on the answers that they tie.
    """
    base, chosen = facts.base, facts.chosen
    before, after = len(base.wrong_order), len(chosen.wrong_order)
    if not base.ties and not chosen.ties and not before and after:
        wrong = {low for low, _ in chosen.wrong_order}
        yield f"No ties, but {chosen.name} prefers {_answers(len(wrong), 'wrong')} to a right one."
    if before != after:
        pairs = f"{before or 'no'} pair{'' if before <= 1 else 's'}"
        yield f"Wrong order: {pairs} under {base.name}, {after or 'none'} under {chosen.name}."
    elif not base.ties:
        yield "No two kinds of answers share an advantage."
    elif len({chosen.level[i] for i in facts.pile}) == 1:
        yield f"{base.name} and {chosen.name} both tie {word(len(facts.pile))} answers."
    else:
        yield f"{chosen.name} parts {word(len(facts.pile))} answers that {base.name} ties."


def _odd(facts: Facts, answer: int) -> bool:
    """Return whether an answer of the outlined tie is the odd one out under the method on the right.

    That is so if no other answer of the tie has the same marks, and all others of the tie get a larger advantage.
    """
    rest = [i for i in facts.pile if i != answer]
    marks, level = facts.state.marks, facts.chosen.level
    return all(marks[i] != marks[answer] and level[i] > level[answer] for i in rest)


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


def _none(many: int) -> str:
    return word(many) if many else "none"
