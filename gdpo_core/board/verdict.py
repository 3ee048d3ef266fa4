"""What a state shows, in two sentences: what is told apart, then what that is worth."""

from itertools import combinations, pairwise

from gdpo_core._html import Html, prose
from gdpo_core._pairs import APART
from gdpo_core._words import count, listing, percent, signed, word
from gdpo_core.board.result import Result
from gdpo_core.board.state import METHODS, State

APART_ON_A_LINE = 0.25  # between two advantages that are named apart
WHY_TIED = (
    " {} can't tell two marks apart when as many answers pass the one as pass the other, or as many pass the one as "
    "fail the other."
)


def verdict(state: State, left: Result, right: Result) -> list[Html]:
    """What this state shows: first what is told apart, then what that is worth."""
    mixes, b = len(set(state.marks)), METHODS[state.method]
    if mixes == 1:
        return [
            prose("All answers have the same rewards, so every advantage is 0."),
            prose("Nothing can be learnt from these answers, under either method."),
        ]
    if not any(state.weights):
        return [
            prose("All weights are 0, so every advantage is 0."),
            prose("Nothing can be learnt: give a reward some weight."),
        ]
    values = [len(set(one.level)) for one in (left, right)]
    if left.ties:
        equal = state.binary and len(set(state.pays)) == len(set(state.weights)) == 1
        first = f"{_largest_tie(state, left, right, b)} {'With equal pay and weights ' if equal else ''}GRPO gives "
        of = f"all {mixes}" if values[1] == mixes else str(values[1])
        first += f"{mixes} kinds of answers only {count(values[0], 'advantage')}, {b} {of}."
    elif right.ties:
        only = count(values[1], "advantage")
        first = f"{_unequal(state)}GRPO tells all {mixes} kinds of answers apart, {b} gives them only **{only}**."
    else:
        each = f"GRPO and {b} both give each of the {mixes} kinds of answers **an advantage of its own**"
        first = f"No tie: {each}. {_unequal(state)}{_loudness(state, left, right, b)}".strip()
    return [prose(one) for one in (first, _worth_of_answers(state, left, right, b)) if one]


def claim(state: State, left: Result, right: Result) -> str:
    """The headline: what becomes of the largest of GRPO's ties of right and wrong answers, or who stands above whom."""
    b = METHODS[state.method]
    if left.level == right.level:
        return "Here both are alike."
    kind = state.right or (True,) * len(state.marks)
    tied = [one["answers"] for one in left.ties if len({kind[i] for i in one["answers"]}) > 1]
    if not tied:
        none = "A number leaves no ties" if state.numbers else "No two kinds of answers share an advantage"
        return "Different answers, the same advantage." if left.ties else f"{none}{_risen(state, left, right, b)}."
    tie = max(tied, key=len)
    wrong, passed = ([right.level[i] for i in tie if kind[i] is one] for one in (False, True))
    if max(wrong) > min(passed):
        return f"The same arithmetic, turned round: now {b} punishes a right answer."
    blind = "GRPO cannot see it" if max(wrong) < min(passed) else f"Neither GRPO nor {b} can see it"
    verb = "is" if len(wrong) == 1 else "are"
    return f"{word(len(wrong)).capitalize()} of these {word(len(tie))} {verb} wrong. {blind}."


def _risen(state: State, left: Result, right: Result, b: str) -> str:
    """How many wrong answers stand above a right one, where GRPO has not as many."""
    grpo, other = (len({i for i, _ in wrong_first(state, one.level)[0]}) for one in (left, right))
    more = f", GRPO {word(grpo)}" if grpo else ""
    wrong = f"{word(other)} wrong {'answer' if other == 1 else 'answers'}"
    return f", and {b} puts {wrong} above a right one{more}" if grpo != other else ""


def notes(state: State, left: Result, right: Result) -> list[dict]:
    """What stands beside the dots: per note its side (0 or 1), its answers, two lines.

    First the answers that are tied most, by the other method where GRPO ties none; then where that has GRPO's. Where
    neither ties any, the right answer that the most wrong ones pass.
    """
    side, one = (0, left) if left.ties else (1, right)
    if not one.ties:
        return _passed_by(state, left, right)
    tie = max((each["answers"] for each in one.ties), key=len)
    shared = f"{len(tie)} answers, one advantage: {signed(one.advantages[tie[0]])}"
    noted = [{"side": side, "answers": tie, "lines": [shared, _whose(state, tie)]}]
    for part in [] if side else _clusters(tie, right.advantages):
        said = list(dict.fromkeys(signed(right.advantages[i]) for i in part))
        where = f"{said[0]} to {said[-1]}" if len(said) > 2 else listing(said)
        noted.append({"side": 1, "answers": part, "lines": [_whose(state, part), where]})
    return noted


def _passed_by(state: State, left: Result, right: Result) -> list[dict]:
    """A note on GRPO's line, at the right answer that the most wrong ones pass under the other method, if one does."""
    turned = [high for low, high in wrong_first(state, right.level)[0] if left.level[low] < left.level[high]]
    if not turned:
        return []
    most = max(turned, key=turned.count)
    said = f"passed by {word(turned.count(most))} wrong"
    return [{"side": 0, "answers": [most], "lines": [_whose(state, [most]), said]}]


def _clusters(answers: list[int], a: list[float]) -> list[list[int]]:
    """Answers by their advantage, lowest first, in sets that lie apart on a line."""
    ordered = sorted(answers, key=lambda i: a[i])
    ends = [n for n, (i, j) in enumerate(pairwise(ordered), 1) if a[j] - a[i] > APART_ON_A_LINE]
    return [ordered[start:end] for start, end in pairwise([0, *ends, len(ordered)])]


def _whose(state: State, answers: list[int]) -> str:
    """How many of the answers are right and how many wrong; of one, which it is."""
    passed = [state.right is not None and state.right[i] for i in answers]
    if len(answers) == 1:
        return f"answer {answers[0] + 1}" + ("" if state.right is None else ", right" if passed[0] else ", wrong")
    if state.right is None:
        return f"{word(len(answers))} answers"
    kinds = {"right": sum(passed), "wrong": len(answers) - sum(passed)}
    return listing((f"{word(n)} {kind}" for kind, n in kinds.items() if n), link="")


def _largest_tie(state: State, left: Result, right: Result, b: str) -> str:
    """The answers that GRPO ties most, and how many values the other method gives them."""
    tie = max(left.ties, key=lambda one: len(one["answers"]))["answers"]
    passed = sum(state.right[i] for i in tie) if state.right else 0
    both = f", {word(passed)} right and {word(len(tie) - passed)} wrong," if 0 < passed < len(tie) else ""
    apart = len({right.level[i] for i in tie})
    then = f"{b} parts them" if apart > 1 else f"{b} ties them too"
    return f"**GRPO gives {word(len(tie))} answers{both} one advantage; {then}.**"


def _unequal(state: State) -> str:
    """That unequal pay and weights break ties too, where GRPO has none but would have some at equal ones."""
    tied = len({sum(row) for row in state.marks}) < len(set(state.marks))
    return "Unequal pay or weights break GRPO's ties too. " if state.binary and tied else ""


def _loudness(state: State, left: Result, right: Result, b: str) -> str:
    """How much of either update belongs to what is a number, beside passes and fails."""
    if not 0 < len(state.numbers) < len(state.pays):
        return ""
    grpo, other = (percent(sum(one.collapsed.update_share[k] for k in state.numbers)) for one in (left, right))
    have = " has" if len(state.numbers) == 1 else "s have"
    return f"The number{have} **{grpo}** of GRPO's update, **{other}** of {b}'s."


def _worth_of_answers(state: State, left: Result, right: Result, b: str) -> str:
    """The second sentence: whether telling apart helped the right answers; empty where no reward says which are."""
    wrong, of = wrong_first(state, right.level)
    before, _ = wrong_first(state, left.level)
    tied = right.collapsed.tied_pair_count
    by_eps = round(right.collapsed.pairs_by_eps / right.collapsed.tied_pairs * tied) if tied else 0
    which = "them" if by_eps == tied else f"{by_eps} of them"
    only = f"; only its ε parts {which}, by less than {percent(APART)} of the largest advantage" if by_eps else ""
    why = WHY_TIED.format(b) if _same_spread(state) else ""
    still = f" {b} still ties {count(tied, 'pair')}{only}.{why}" if tied else ""
    if left.ties and left.level == right.level:
        return why.strip() or "Both put the answers in the same order."
    if state.right is None:
        return still.strip()
    if not of:
        whole = "All answers are right" if state.right[0] else "No answer is right"
        return f"{whole}, so the other rewards alone decide who comes first.{still}"
    mended = _mended(state, left.level, right.level, b)
    if wrong:
        return f"{mended}{_priority(wrong, of, before, right, b, bool(mended))}{still}"
    under = f", in {len(before)} under GRPO" if before else ""
    return f"{mended}In no pair a wrong answer stands above a right one under {b}{under}.{still}"


def _mended(state: State, before: list[int], after: list[int], b: str) -> str:
    """Of the ties of a right and a wrong answer those that now put the right one first; empty without any."""
    tied = [(i, j) for i, j in _right_and_wrong(state) if before[i] == before[j]]
    first = sum(after[j] > after[i] for i, j in tied)
    ties = f"Of {count(len(tied), 'tie')} of a right and a wrong answer"
    where = "each time" if first == len(tied) else f"in {first or 'none'}"
    return f"{ties} {b} puts the right one first {where}. " if tied else ""


def _priority(wrong: list[tuple[int, int]], of: int, before: list, right: Result, b: str, mended: bool) -> str:
    """That a wrong answer stands above a right one: the widest case, and how many there are."""
    low, high = max(wrong, key=lambda pair: right.level[pair[0]] - right.level[pair[1]])
    more = f", {'as many' if len(before) == len(wrong) else len(before)} under GRPO" if before else ""
    subject = f"But {b}" if len(wrong) > len(before) else "It also" if mended else b
    return (
        f"{subject} puts answer **{low + 1}**, wrong, above answer **{high + 1}**, right: {len(wrong)} of "
        f"{count(of, 'pair')} of wrong and right{more}."
    )


def _same_spread(state: State) -> bool:
    """Whether two marks of equal weight spread alike, so that GDPO adds the same for either."""
    passes = [sum(column) for column in zip(*state.marks, strict=True)]
    alike = any(j == k or j + k == len(state.marks) for j, k in combinations(passes, 2))
    return alike and state.binary and len(set(state.weights)) == 1 and state.method in ("gdpo", "mo_grpo")


def _right_and_wrong(state: State) -> list[tuple[int, int]]:
    """All pairs (wrong, right) by the primary reward."""
    right = state.right or ()
    return [(i, j) for i, one in enumerate(right) if not one for j, other in enumerate(right) if other]


def wrong_first(state: State, levels: list[int]) -> tuple[list[tuple[int, int]], int]:
    """The pairs (wrong, right) in which the wrong answer gets more, and the number of all such pairs."""
    pairs = _right_and_wrong(state)
    return [(i, j) for i, j in pairs if levels[i] > levels[j]], len(pairs)
