"""Every sentence of the Lab over random states: each is judged by plain loops over the advantages that it speaks of."""

import random
import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import pytest
from helpers import text_of
from hypothesis import given
from hypothesis import strategies as st

import gdpo_audit as ga
import gdpo_core as gc
from gdpo_audit.advice import advice
from gdpo_core.board import effects
from gdpo_core.board.drawing import draw
from gdpo_core.board.facts import board_facts
from gdpo_core.board.result import compute
from gdpo_core.board.state import CHOSEN_METHODS, PAYS, UNDEFINED, State
from gdpo_core.pushing import OTHER_STEPS
from gdpo_core.shared.words import percent, signed
from views import bfcl
from views.chapters.lab import answers
from views.chapters.use import questions

AT_ONCE = 50  # states an example, so that the nightly 200 examples are 10,000
STARTS = [answers.grade_answers(task).state for task in bfcl.load_tasks("data/tasks")]
WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
ROUND_OFF = 1e-7  # of the largest advantage
NAMES = ["GRPO", *CHOSEN_METHODS.values()]
DECOUPLED = ("gdpo", "mo_grpo", "saw", "sa_mrpo", "gd2po")


def random_state(rng: random.Random) -> State:
    """Return a task of the Lab with some marks flipped, and any pay, weights, convention and method."""
    start = rng.choice(STARTS)
    flips, width = rng.choice([0, 0.03, 0.2, 0.5, 1]), len(start.pays)

    def flipped(mark):
        if rng.random() >= flips:
            return mark
        return rng.choice((0, 1) if mark in (0, 1) else (0, 0.3, 0.94, mark))

    marks = [tuple(map(flipped, row)) for row in start.marks]
    if rng.random() < 0.03:
        marks = [rng.choice(marks)] * len(marks)
    pays = [1.0] * width if rng.random() < 0.4 else [rng.choice(PAYS) for _ in range(width)]
    any_weight = (0.0, 0.1, 0.5, 1.0, 1.0, 1.2, 2.0, 3.7, 5.0)
    weights = [1.0] * width if rng.random() < 0.4 else [rng.choice(any_weight) for _ in range(width)]
    convention = rng.choice(["paper", *gc.CONVENTIONS])
    method = rng.choice(["gdpo", "gdpo", *CHOSEN_METHODS])
    if [method, convention] in UNDEFINED:
        convention = "paper"
    return State(
        tuple(marks), tuple(pays), tuple(weights), convention, method, start.lengths, names=("correctness", *"bc")
    )


@dataclass
class Plain:
    """Facts about a state, as plain loops over the advantages of both methods find them; side 0 is GRPO, side 1 the
    other method.
    """

    state: State
    drawing: dict

    def __post_init__(self):
        marks = self.marks = self.state.marks
        self.all = range(len(marks))
        self.right = [row[0] > 0 for row in marks]
        self.a = self.drawing["a"]
        self.name = CHOSEN_METHODS[self.state.method]
        self.pairs = [(i, j) for i in self.all for j in self.all if not self.right[i] and self.right[j]]
        self.bare = [self.without_eps(method) for method in ("grpo", self.state.method)]
        self.pile = next((note["answers"] for note in self.drawing["notes"] if len(note["answers"]) > 1), [])
        self.pile_side = self.drawing["notes"][0]["side"] if self.pile else None

    def without_eps(self, method):
        """Return the advantages that decide what is a tie: those without eps, where eps may part answers that are tied
        without it. None where the advantages themselves decide.
        """
        c = gc.CONVENTIONS[self.state.convention]
        if c.without_eps is c or not (c.leave_one_out or method in DECOUPLED):
            return None
        given = {"weights": self.state.weights, "lengths": self.state.lengths, "convention": c.without_eps}
        return gc.advantages(self.state.rewards, method, **given).tolist()

    def same(self, side, i, j):
        a, bare = self.a[side], self.bare[side]
        off, largest = abs(a[i] - a[j]), max(map(abs, a))
        if bare is None:
            return off <= ROUND_OFF * largest
        near = off == 0 or off < 0.005 * largest
        return near and abs(bare[i] - bare[j]) <= ROUND_OFF * max(map(abs, bare))

    def above(self, side, i, j):
        return self.a[side][i] > self.a[side][j] and not self.same(side, i, j)

    def zero(self, side):
        return all(abs(x) < 1e-9 for x in self.a[side])

    def tied(self, side):
        return {
            (i, j) for i, j in combinations(self.all, 2) if self.marks[i] != self.marks[j] and self.same(side, i, j)
        }

    @cached_property
    def ties(self):
        return self.tied(0), self.tied(1)

    @cached_property
    def wrong(self):
        return [{(i, j) for i, j in self.pairs if self.above(side, i, j)} for side in (0, 1)]

    @cached_property
    def open(self):
        """Three counts of pairs of a wrong and a right answer: those that GRPO ties, those of these that the other
        method puts in the right order, and those that it puts in the wrong order.
        """
        ties = [(i, j) for i, j in self.pairs if self.same(0, i, j)]
        return len(ties), sum(self.above(1, j, i) for i, j in ties), sum(self.above(1, i, j) for i, j in ties)

    @cached_property
    def difference(self):
        return max(abs(x - y) for x, y in zip(*self.a, strict=True))

    @cached_property
    def same_order(self):
        return all(self.above(0, i, j) == self.above(1, i, j) for i in self.all for j in self.all)

    @cached_property
    def proportional(self):
        x, y = self.a
        most = max(map(abs, x)) * max(map(abs, y))
        return all(abs(x[i] * y[j] - x[j] * y[i]) <= 1e-3 * most for i, j in combinations(self.all, 2))

    def levels(self, side, answers=None):
        kinds = []
        for i in answers or self.all:
            if not any(self.same(side, i, j) for j in kinds):
                kinds.append(i)
        return len(kinds)

    def push(self, side, k=0):
        a, x = self.a[side], [row[k] * self.state.pays[k] for row in self.marks]
        d = [one - sum(x) / len(x) for one in x]
        size = (sum(one * one for one in a) * sum(one * one for one in d)) ** 0.5
        return sum(one * other for one, other in zip(a, d, strict=True)) / size if size > 1e-12 else 0.0

    def crossing(self, high, low):
        """Return the rewards beside correctness with a weight above 0 whose push is at least 0.1 on the side `high`,
        below 0.05 on the side `low`, and at least 0.1 apart, as printed with two decimals.
        """
        found = []
        for k in range(1, len(self.state.weights)):
            more, less = round(self.push(high, k), 2), round(self.push(low, k), 2)
            if self.state.weights[k] > 0 and less < 0.05 and more > 0.099 and more - less > 0.099:
                found.append(k)
        return found

    @cached_property
    def largest(self):
        """Return the kind of headline that the ranking asks for: what becomes of the right answers, of other rewards,
        of the order, and only then of ties.
        """
        if self.zero(0) or self.zero(1):
            return "silent"
        wrong = [len(side) for side in self.wrong]
        if self.pairs:
            for side in (0, 1):
                ties = sum(self.same(side, i, j) for i, j in self.pairs)
                push = round(self.push(side), 2)
                if push < 0 or (push == 0 and wrong[side] >= ties):
                    return "not raised"
        most = max(wrong)
        if most and most >= self.open[0] and (wrong[0] != wrong[1] or most > len(self.pairs) / 2):
            return "wrong order"
        if self.crossing(0, 1):
            return "stopped"
        if self.same_order or self.difference < 0.01:
            return "same"
        return "started" if self.crossing(1, 0) and not self.open[0] else "ties"

    def down(self, side):
        return sum(passed and a <= -0.005 for passed, a in zip(self.right, self.a[side], strict=True))

    def is_pile(self, many, side):
        """Return whether so many answers are outlined on this side, all with one advantage and not all with the same
        marks.
        """
        tied = all(self.same(side, i, j) for i, j in combinations(self.pile, 2))
        kinds = {self.marks[i] for i in self.pile}
        return many == len(self.pile) and self.pile_side == side and tied and len(kinds) > 1

    def parted(self, side=1):
        return not all(self.same(side, i, j) for i, j in combinations(self.pile, 2))

    @property
    def mixes(self):
        return len(set(self.marks))


def count(text):
    """Return the number that a word or digits stand for; an article stands for 1."""
    text = text.replace(",", "").lower()
    return {"a": 1, "none": 0}.get(text, WORDS.index(text) if text in WORDS else int(text) if text.isdigit() else -1)


def fits(many, noun):
    """Return whether a noun or verb is in the singular exactly if there is one thing. noun: the ending or word that is
    to agree.
    """
    return (many == 1) == (noun in ("", "is", "has", "it"))


# --- headlines --------------------------------------------------------------------------------------------------------

RULES = []  # (pattern, the judge of what it claims)


def rule(pattern):
    """Return a decorator that registers a judge of the sentences that match a pattern. In it {N} stands for the name of
    a method, and {W} for a number in words or digits.
    """
    names, words = "|".join(map(re.escape, sorted(NAMES, key=len, reverse=True))), "|".join([*WORDS, "none", r"\d+"])
    pattern = pattern.replace("{N}", f"({names})").replace("{W}", f"({words})").replace("{n}", f"(?:{names})")

    def keep(judge):
        RULES.append((re.compile(pattern), judge))
        return judge

    return keep


def side_of(name):
    return int(name != "GRPO")


@rule(r"Nothing to learn here\.|Every advantage is 0, so nothing is learnt from these answers\.")
def _(p):
    return p.zero(0) and p.zero(1)


@rule(r"{N} teaches nothing here; {N} does\.")
@rule(r"{N} gives every answer an advantage of 0 and teaches nothing; {N} teaches something\.")
def _(p, none, some):
    return none != some and p.zero(side_of(none)) and not p.zero(side_of(some))


@rule(r"Both methods agree\.|No advantage differs by as much as 0\.01\.")
def _(p):
    return p.difference < 0.01 and not p.zero(0)


@rule(r"Same order; {N} takes (longer|shorter) steps\.")
def _(p, name, which):
    size = [sum(x * x for x in side) for side in p.a]
    return p.same_order and p.proportional and name == p.name and (size[1] > size[0]) == (which == "longer")


@rule(r"Same order, unequal pushes\.")
def _(p):
    return p.same_order and p.difference >= 0.01


@rule(r"(GRPO cannot tell|Both methods tie) (.+) (?:from|with) (.+)\.")
def _(p, who, wrong, passed):
    """Answers are counted, or named by their numbers if there is one of each."""
    low = [i for i in p.pile if not p.right[i]]
    high = [i for i in p.pile if p.right[i]]
    parted = all(p.above(1, j, i) for i in low for j in high)
    if len(low) == len(high) == 1:
        words = f"wrong answer {low[0] + 1}", f"right answer {high[0] + 1}"
    else:
        words = (
            "a wrong answer" if len(low) == 1 else f"{WORDS[len(low)]} wrong answers",
            "a right one" if len(high) == 1 else f"{WORDS[len(high)]} right ones",
        )
    seen = parted if who.startswith("GRPO") else not p.parted()
    return p.is_pile(len(low) + len(high), 0) and (wrong, passed) == words and seen


@rule(
    r"(Neither|Neither method|{n}) "
    r"(raises correctness|lowers correctness|does not raise correctness|helps|does not help): "
    r"wrong (?:over right|order) in (\d+)(?: and (\d+))? of (\d+)(?: pairs)?\."
)
def _(p, who, does, before, after, of):
    pushes = [round(p.push(side), 2) for side in (0, 1)]
    wrong = [len(side) for side in p.wrong]
    if who.startswith("Neither"):
        return max(pushes) <= 0 and [int(before), int(after or before)] == wrong and int(of) == len(p.pairs)
    side = side_of(who)
    good = pushes[side] < 0 if does.startswith("lowers") else pushes[side] <= 0
    return good and [int(before), int(of)] == [wrong[side], len(p.pairs)]


@rule(r"{N} ranks wrong over right in (\d+) of (\d+) pairs, {N} in {W}\.")
def _(p, name, many, of, other, less):
    wrong = [len(side) for side in p.wrong]
    here, there = wrong[side_of(name)], wrong[side_of(other)]
    return name != other and [int(many), int(of), count(less)] == [here, len(p.pairs), there]


@rule(r"Both methods rank wrong over right in (\d+) of (\d+) pairs\.")
@rule(r"Wrong order in (\d+)(?: and (\d+))? of (\d+) pairs\.")
def _(p, before, *rest):
    after, of = rest if len(rest) == 2 else (before, *rest)
    return [int(before), int(after or before), int(of)] == [*map(len, p.wrong), len(p.pairs)]


@rule(r"Wrong order in (\d+) of (\d+) pairs; in {W} under {N}\.")
@rule(r"Wrong order in (\d+) of (\d+) pairs under {N}, else in (none)\.")
def _(p, many, of, third, fourth):
    if fourth == "none":
        return third == p.name and [0, int(many), int(of)] == [*map(len, p.wrong), len(p.pairs)]
    return fourth == p.name and [int(many), count(third), int(of)] == [*map(len, p.wrong), len(p.pairs)]


@rule(r"({n} no longer raises|{n} hardly raises|Only {n} raises) ([bc](?: and [bc])?)(?: \((.+)\))?\.")
def _(p, does, names, numbers):
    falls = not does.startswith("Only")
    crossing = p.crossing(0, 1) if falls else p.crossing(1, 0)
    named = [p.state.names.index(name) for name in names.split(" and ")]
    low = [round(p.push(1 if falls else 0, k), 2) for k in named]
    clear = [k for k in crossing if round(p.push(1 if falls else 0, k), 2) <= 0]
    if ("no longer" in does and max(low) > 0) or ("hardly" in does and min(low) <= 0) or named != (clear or crossing):
        return False
    told = re.findall(r"[+−]?\d\.\d\d", numbers or "")
    each = [p.push(0, named[0]), p.push(1, named[0])] if "push" in (numbers or "") else [p.push(1, k) for k in named]
    return p.name in does and all(near(one, x) for one, x in zip(told, each, strict=False))


@rule(r"{N} pushes right answer (\d+) below (a|{W}) wrong ones?\.".replace("(a|{W})", "(a|[a-z]+)"))
def _(p, name, answer, many):
    i = int(answer) - 1
    above = sum(p.above(1, j, i) for j in p.pile if not p.right[j])
    spared = not any(p.above(1, j, k) for k in p.pile if p.right[k] and k != i for j in p.pile if not p.right[j])
    return name == p.name and p.right[i] and i in p.pile and above == count(many) and p.a[1][i] < 0 and spared


@rule(r"GRPO ties {W} answers; {N} spreads them by (\d+\.\d\d)\.")
def _(p, many, name, spread):
    a = [p.a[1][i] for i in p.pile]
    return (
        p.is_pile(count(many), 0) and p.parted() and name == p.name and abs(max(a) - min(a) - float(spread)) < 0.00501
    )


@rule(r"{N} (hardly raises|does not raise) ([bc]): the push on it is (\S+) under GRPO and (\S+) under {N}\.")
def _(p, less, how, reward, before, after, name):
    k, side = p.state.names.index(reward), side_of(less)
    low = round(p.push(side, k), 2)
    crossing = p.crossing(1 - side, side)
    pushes = near(before, p.push(0, k)) and near(after, p.push(1, k))
    return k in crossing and name == p.name and pushes and (low > 0) == how.startswith("hardly")


@rule(r"GRPO ties right and wrong answers; {N} does not\.|Both methods tie right and wrong answers\.")
def _(p, name):
    low = [i for i in p.pile if not p.right[i]]
    high = [i for i in p.pile if p.right[i]]
    parted = all(p.above(1, j, i) for i in low for j in high)
    return bool(low and high) and (name == p.name and parted if name else not p.parted())


@rule(r"{N} pushes (a|{W}) right answers? down, GRPO {W}\.".replace("(a|{W})", "(a|[a-z]+)"))
def _(p, name, many, before):
    return name == p.name and count(many) == p.down(1) > p.down(0) == count(before)


@rule(r"Of (\d+) right–wrong (?:tie|ties) {N} decides (\d+) rightly, (\d+) wrongly\.")
def _(p, ties, name, well, badly):
    return (int(ties), int(well), int(badly)) == p.open and name == p.name and int(ties) > 1


@rule(r"{N} decides (\d+) ties rightly, (\d+) wrongly\.")
def _(p, name, well, badly):
    return (int(well), int(badly)) == p.open[1:] and name == p.name


@rule(r"Of (\d+) right–wrong ties {N} decides (\d+) (rightly|wrongly)\.")
def _(p, ties, name, many, how):
    expected = (int(many), 0) if how == "rightly" else (0, int(many))
    return int(ties) == p.open[0] > int(many) and p.open[1:] == expected


@rule(r"{N} decides (the only|both|all \d+) right–wrong tie(s?) (rightly|wrongly)\.")
def _(p, name, many, s, how):
    ties = {"the only": 1, "both": 2}.get(many) or int(many.split()[1])
    return (ties, *((ties, 0) if how == "rightly" else (0, ties))) == p.open and fits(ties, s)


@rule(r"{N} ties {W} answers, GRPO none\.")
def _(p, name, many):
    return name == p.name and p.is_pile(count(many), 1) and not p.ties[0]


@rule(r"No two kinds of answers share an advantage\.")
def _(p):
    return not p.ties[0] and not p.ties[1] and not p.same_order


@rule(r"GRPO and {N} both tie {W} answers\.")
def _(p, name, many):
    return p.is_pile(count(many), 0) and not p.parted()


@rule(r"The two methods put the answers in different orders\.")
def _(p):
    return not p.same_order


# --- what is told apart -----------------------------------------------------------------------------------------------


@rule(r"All answers have the same marks, and a method only compares answers with one another\.")
def _(p):
    return p.mixes == 1


@rule(r"All weights are 0: give a reward some weight\.")
def _(p):
    return not any(p.state.weights) and p.mixes > 1


@rule(r"The answers differ only in rewards of weight 0\.")
def _(p):
    weighed = [[row[k] for row in p.marks] for k, w in enumerate(p.state.weights) if w]
    return weighed and p.mixes > 1 and all(len(set(column)) == 1 for column in weighed)


@rule(r"(?:Under GRPO the|The) rewards of every answer have the same sum\.")
def _(p):
    sums = [sum(w * x for w, x in zip(p.state.weights, row, strict=True)) for row in p.state.rewards]
    return max(sums) - min(sums) < 1e-9 * max(map(abs, sums))


@rule(r"(?:Under {n}|Here) the normalised rewards of every answer have the same sum\.")
def _(p):
    return p.zero(1) and p.mixes > 1 and p.state.method in DECOUPLED


@rule(r"(?:Under both methods|Here) the rewards of every answer have the same sum\.")
def _(p):
    return p.zero(1) and p.mixes > 1 and p.state.method not in DECOUPLED


DROPS = r"GD²PO drops (the only answer|both answers|all \d+ answers|\d+ of \d+ answers), as their rewards disagree"


@rule(r"(?:Here )?" + DROPS + r"(|, and the others are alike|, and one has nothing to be compared with)\.")
def _(p, many, rest):
    """GD²PO drops an answer whose weighted z have both signs and a sum below 0.8 of the sum of their sizes."""
    n, dropped = len(p.marks), 0
    z = []
    for k in range(len(p.state.pays)):
        x = [row[k] for row in p.state.rewards]
        spread = (sum((one - sum(x) / n) ** 2 for one in x) / (n - 1)) ** 0.5
        z.append([p.state.weights[k] * (one - sum(x) / n) / spread if spread > 1e-12 else 0.0 for one in x])
    for t in zip(*z, strict=True):
        both = any(x > 1e-8 for x in t) and any(x < -1e-8 for x in t)
        dropped += both and abs(sum(t)) < 0.8 * sum(map(abs, t)) - 1e-9
    stay = n - dropped
    said = n if many.startswith("all") else int(many.split()[0])
    end = "" if not stay else "one has" if stay == 1 else "are alike"
    exact = said == dropped or p.state.convention != "paper"
    return p.zero(1) and p.state.method == "gd2po" and exact and (end in rest if end else not rest)


@rule(
    r"GRPO gives {W} answers(?:, {W} right and {W} wrong,)? the same advantage"
    r"(?:; {N} (?:gives them {W} different ones|ties them too))?\."
)
def _(p, many, right, wrong, name, levels):
    passed = sum(p.right[i] for i in p.pile)
    kinds = (passed, len(p.pile) - passed) if 0 < passed < len(p.pile) else (None, None)
    said = (right and count(right), wrong and count(wrong))
    return (
        p.is_pile(count(many), 0)
        and (said == kinds or not right)
        and (not name or p.levels(1, p.pile) == (count(levels) if levels else 1))
    )


@rule(r"{N} gives {W} answers(?:, {W} right and {W} wrong,)? the same advantage; GRPO ties none\.")
def _(p, name, many, right, wrong):
    passed = sum(p.right[i] for i in p.pile)
    said = (count(right), count(wrong)) if right else None
    return p.is_pile(count(many), 1) and not p.ties[0] and said in (None, (passed, len(p.pile) - passed))


@rule(
    r"Here {N} is the method that loses information: in (\d+) pair(s?), answers with different marks get the same "
    r"advantage from {N}, but not from GRPO\."
)
def _(p, name, many, s, again):
    lost = len(p.ties[1] - p.ties[0])
    return int(many) == lost and fits(lost, s) and name == again == p.name


@rule(
    r"Here every passed mark pays the same and has the same weight in the sum, so GRPO has only (\d+) advantages for "
    r"(\d+) combinations of marks, while {N} has (\d+)\."
)
def _(p, few, mixes, name, many):
    return fewer(p, mixes, few, many) and equal(p)


@rule(r"For (\d+) combinations of marks GRPO has only (\d+) advantages, while {N} has (\d+)\.")
def _(p, mixes, few, name, many):
    return fewer(p, mixes, few, many) and not equal(p)


def fewer(p, mixes, few, many):
    """Return whether these are the numbers of combinations and of both sides' advantages, fewer on the left."""
    return [int(mixes), int(few), int(many)] == [p.mixes, p.levels(0), p.levels(1)] and int(few) < int(many)


def equal(p):
    """Return whether all marks are 0 or 1, and all pays and all weights are equal."""
    return all(len(set(x)) == 1 for x in (p.state.pays, p.state.weights)) and {*sum(p.marks, ())} <= {0, 1}


@rule(r"For (\d+) combinations of marks GRPO has (\d+) advantages, while {N} has only (\d+)\.")
def _(p, mixes, many, name, few):
    return [int(mixes), int(many), int(few)] == [p.mixes, p.levels(0), p.levels(1)] and int(few) < int(many)


@rule(r"For (\d+) combinations of marks both methods have only (\d+) advantages\.")
def _(p, mixes, few):
    return [int(mixes), int(few), int(few)] == [p.mixes, p.levels(0), p.levels(1)] and int(few) < p.mixes


@rule(r"With equal pay and weights GRPO would tie (\d+) pair(s?)\.")
def _(p, many, s):
    pairs = [(u, v) for u, v in combinations(p.marks, 2) if u != v and sum(u) == sum(v)]
    return len(pairs) == int(many) and fits(int(many), s) and not p.ties[0]


@rule(r"Neither GRPO nor {N} ties any of the (\d+) combinations of marks: each has an advantage of its own\.")
def _(p, name, mixes):
    return int(mixes) == p.mixes == p.levels(0) == p.levels(1)


@rule(r"The advantages of {N} are ([\d.]+) times those of GRPO: (longer|shorter) steps in the same direction\.")
def _(p, name, times, which):
    ratio = max(map(abs, p.a[1])) / max(map(abs, p.a[0]))
    return p.proportional and float(times) == pytest.approx(ratio, rel=0.01) and (ratio > 1) == (which == "longer")


@rule(r"Both put the answers in the same order, but answer (\d+) gets (\S+) under GRPO and (\S+) under {N}\.")
def _(p, answer, before, after, name):
    gaps = [abs(x - y) for x, y in zip(*p.a, strict=True)]
    i = int(answer) - 1
    return p.same_order and gaps[i] == max(gaps) and [before, after] == [signed(side[i]) for side in p.a]


@rule(r"{N} still ties (\d+) of (\d+) pairs\.")
def _(p, name, kept, of):
    return [int(kept), int(of)] == [len(p.ties[0] & p.ties[1]), len(p.ties[0])]


@rule(r"{N} also ties (\d+) pair(s?) that GRPO tells apart, and so loses information\.")
def _(p, name, many, s):
    return int(many) == len(p.ties[1] - p.ties[0]) > 0 and fits(int(many), s)


@rule(
    r"(The pair|The \d+ pairs|\d+ of the \d+ pairs) that {N} ties (is|are) not tied exactly: (.+) adds a small ε to "
    r"its divisors, which leaves a difference between the two advantages\."
)
def _(p, which, name, verb, convention):
    by_eps, ties = tied_by_eps(p), len(p.ties[1])
    every = "The pair" if ties == 1 else f"The {ties} pairs"
    expected = every if by_eps == ties else f"{by_eps} of the {ties} pairs"
    named = convention == gc.CONVENTIONS[p.state.convention].name
    return named and which == expected and verb == ("is" if by_eps == 1 else "are")


@rule(
    r"As this difference is less than 0\.5 % of the largest advantage, the two answers of such a pair count as tied\."
)
def _(p):
    return tied_by_eps(p) > 0


def tied_by_eps(p):
    """Return how many pairs are tied on the right although their advantages differ by more than round-off."""
    largest = max(map(abs, p.a[1]))
    return sum(abs(p.a[1][i] - p.a[1][j]) > 1e-9 * largest for i, j in p.ties[1])


@rule(
    r"At equal weights two marks count alike under {N} if both are passed by equally many answers, or if one is passed "
    r"by as many answers as fail the other\."
)
def _(p, name):
    passes = [sum(row[k] for row in p.marks) for k in range(len(p.state.pays))]
    alike = [(j, k) for j, k in combinations(passes, 2) if j == k or j + k == len(p.marks)]
    return alike and len(set(p.state.weights)) == 1 and p.ties[1] and p.state.method in ("gdpo", "mo_grpo")


@rule(r"The score, c, has a share of (.+ %) in GRPO's update and of (.+ %) in {N}'s\.")
def _(p, before, after, name):
    return [before, after] == [percent(side[2]) for side in p.drawing["shares"]]


@rule(
    r"Leave-one-out compares answer (\d+) with the others alone\. They agree in (\w+), so its mark is not divided by a "
    r"spread\."
)
def _(p, answer, name):
    k = p.state.names.index(name)
    others = {row[k] for i, row in enumerate(p.marks) if i != int(answer) - 1}
    return p.state.convention == "nemo_rl_loo" and len(others) == 1 and p.marks[int(answer) - 1][k] not in others


# --- what that is worth -----------------------------------------------------------------------------------------------


@rule(
    r"(All answers are right|No answer is right), so nothing here raises correctness: the other rewards alone decide\."
)
def _(p, which):
    return {which.startswith("All")} == set(p.right)


@rule(r"Not as it stands: correctness weighs 0, so neither method looks at it\.")
def _(p):
    return p.state.weights[0] == 0


@rule(
    r"(?:Not as it stands: )?(.+ %) of the right–wrong pairs are in the wrong order under "
    r"(?:both methods|GRPO and (.+ %) under {N})\."
)
def _(p, before, after, name):
    shares = [len(wrong) / len(p.pairs) for wrong in p.wrong]
    return min(shares) > 0.5 and [before, after or before] == [percent(x) for x in shares]


@rule(r"GRPO ties a right answer with a wrong one in (one pair|\d+ pairs)\.")
def _(p, pairs):
    return p.open[0] == count(pairs.split()[0]) and pairs != "1 pairs"


@rule(r"{N} ties (it|these) too\.")
def _(p, name, which):
    return p.open[1:] == (0, 0) and p.open[0] > 0 and fits(p.open[0], which)


EXAMPLE = r"(for example )?the wrong answer (\d+) above the right answer (\d+)"


def example(p, side, such, low, high):
    """Return whether two answers are in the wrong order on a side, and whether "such as" stands before them only if
    there are other pairs. low, high: their numbers as printed.
    """
    return not low or ((int(low) - 1, int(high) - 1) in p.wrong[side] and (such is None) == (len(p.wrong[side]) == 1))


@rule(r"{N} ranks the (right|wrong) answer higher (there|in both|in all \d+)(?: \(" + EXAMPLE + r"\))?\.")
def _(p, name, which, where, such, low, high):
    ties = {"there": 1, "in both": 2}.get(where) or int(where.split()[2])
    return p.open == (ties, *((ties, 0) if which == "right" else (0, ties))) and example(p, 1, such, low, high)


@rule(
    r"{N} ranks (?:the right answer higher in (\d+))?(?: and )?(?:the wrong answer higher in (\d+))?(?: \("
    + EXAMPLE + r"\))?\.(?: It still ties the other ?(\d+)?\.)?"
)  # fmt: skip
def _(p, name, well, badly, such, low, high, kept):
    return (int(well or 0), int(badly or 0)) == p.open[1:] and example(p, 1, such, low, high)


@rule(r"It still ties the other ?(\d+)?\.")
def _(p, kept):
    return int(kept or 1) == p.open[0] - p.open[1] - p.open[2] and kept != "1"


@rule(r"{N} has {W} of (\d+) right–wrong pair(s?) in the wrong order\.")
def _(p, name, many, of, s):
    side = side_of(name)
    return [count(many), int(of)] == [len(p.wrong[side]), len(p.pairs)] and p.zero(1 - side) and fits(int(of), s)


@rule(r"Under neither method does a wrong answer rank above a right one\.")
def _(p):
    return p.pairs and not p.wrong[0] and not p.wrong[1]


@rule(
    r"Under {N} no wrong answer ranks above a right one; under {N} that happens in (one pair|\d+ pairs)(?:, " + EXAMPLE
    + r")?\."
)  # fmt: skip
def _(p, none, some, pairs, such, low, high):
    side = side_of(some)
    many = count(pairs.split()[0])
    return not p.wrong[side_of(none)] and len(p.wrong[side]) == many > 0 and example(p, side, such, low, high)


@rule(
    r"Both methods (?:still )?rank the wrong answer(s?) ([\d, andmore]+) above the right answer(s?) ([\d, andmore]+)\."
)
def _(p, some, wrong, others, right):
    sets = []
    for s, text, k in ((some, wrong, 0), (others, right, 1)):
        known = sorted({pair[k] + 1 for pair in p.wrong[1]})
        named = [int(x) for x in re.findall(r"\d+(?! more)\b", text)]
        more = re.search(r"(\d+) more", text)
        if (
            not fits(len(known), s)
            or named != known[: len(named)]
            or len(known) != len(named) + int(more[1] if more else 0)
        ):
            return False
        sets.append(known)
    return p.wrong[0] == p.wrong[1] and len(p.wrong[1]) == len(sets[0]) * len(sets[1])


@rule(r"Both methods (?:still )?have the same (\d+) of (\d+) right–wrong pairs in the wrong order, " + EXAMPLE + r"\.")
def _(p, many, of, such, low, high):
    return (
        [int(many), int(of)] == [len(p.wrong[1]), len(p.pairs)]
        and p.wrong[0] == p.wrong[1]
        and example(p, 1, such, low, high)
    )


@rule(r"In (\d+) of (\d+) right–wrong pairs GRPO has the wrong order, {N} in (\d+)\.")
def _(p, before, of, name, after):
    return [int(before), int(after)] == [len(x) for x in p.wrong] and int(of) == len(p.pairs)


@rule(r"The push on correctness, which is its correlation with the advantages, is (\S+) under both methods\.")
def _(p, push):
    return all(near(push, p.push(side)) for side in (0, 1))


@rule(
    r"The push on correctness, which is its correlation with the advantages, is (\S+) under GRPO and (\S+) under {N}(, "
    r"so in this group {n}'s update raises correctness (?:more|less)|, so in this group neither update raises "
    r"correctness|, so in this group {n}'s update raises correctness and {n}'s does not|)\."
)
def _(p, before, after, name, then):
    pushes = x, y = p.push(0), p.push(1)
    better, worse = ("GRPO", name) if x > y else (name, "GRPO")
    expected = f", so in this group {name}'s update raises correctness {'more' if y > x else 'less'}"
    if max(pushes) < 0.005:
        expected = ", so in this group neither update raises correctness"
    elif min(pushes) < 0.005:
        expected = f", so in this group {better}'s update raises correctness and {worse}'s does not"
    if p.state.method == "grpo_no_std":  # whose steps have another length, so that the sentence after this one says so
        expected = ""
    return near(before, x) and near(after, y) and then == expected


@rule(rf"({re.escape(OTHER_STEPS)})")
def _(p, said):
    return p.state.method == "grpo_no_std"


def near(said, x):
    return float(said.replace("−", "-")) == pytest.approx(x, abs=0.00501)


# --- all states -------------------------------------------------------------------------------------------------------


def sentences(paragraph):
    """Return the sentences of a paragraph; two that are true only together are kept together."""
    text = text_of(paragraph).replace("\N{NO-BREAK SPACE}", " ").replace(" ,", ",")
    return re.split(r"(?<=\.) (?=[A-Z\d])(?!They agree)", text.strip())


# How a headline on each kind of effect reads; each headline is of one kind.
KINDS = {
    "silent": r"^Nothing to learn|teaches nothing here",
    "not raised": r"raises? correctness: wrong|lowers correctness: wrong|helps?: wrong",
    "wrong order": r"ranks? wrong over right|^Wrong order",
    "stopped": r"no longer raises|hardly raises",
    "started": r"^Only",
    "same": r"^Both methods agree|^Same order",
    "ties": r"cannot tell|ties? |pushes |decides|share an advantage|different orders",
}


def everything_of(told):
    return " ".join(told)


def judge(state):
    """Assert that each sentence about a state is known and true, and that none is missing that has to be there."""
    drawing = draw(state)
    p = Plain(state, drawing)
    claim = drawing["claim"]
    assert len(claim) <= 60 and "\n" not in claim
    told = [one for paragraph in drawing["verdict"] for one in sentences(paragraph)]
    for sentence in (claim, *told):
        judges = [(m, judge) for pattern, judge in RULES if (m := pattern.fullmatch(sentence))]
        assert judges, f"nothing judges: {sentence!r} in {state}"
        assert any(judge(p, *m.groups()) for m, judge in judges), f"does not hold: {sentence!r} in {state}"
    everything = " ".join((claim, *told, *(line for note in drawing["notes"] for line in note["lines"])))
    assert not re.search(r"\b1 (pairs|advantages|ties|answers|combinations)\b|none of the 1\b|nan|  ", everything)
    silent = p.zero(0) and p.zero(1)
    assert (claim == "Nothing to learn here.") == silent
    shown = [kind for kind, pattern in KINDS.items() if re.search(pattern, claim)]
    assert shown == [p.largest], f"not the largest effect: {claim!r} is {shown}, not {p.largest}, in {state}"
    assert p.largest != "same" or (claim == "Both methods agree.") == (p.difference < 0.01)
    assert re.search(r"\d", claim) or p.largest not in ("not raised", "wrong order")
    if not silent and not p.zero(0) and not p.zero(1):
        first_speaks = "raise" in told[0] or "right–wrong" in told[0] or "answer with a wrong one" in told[0]
        rewards = p.largest in ("not raised", "wrong order", "stopped", "started")
        assert not rewards or first_speaks or "Not as it stands" in told[0] or "wrong answer" in told[0], told
        crossed = len(p.crossing(0, 1)) + len(p.crossing(1, 0))
        assert everything_of(told).count("the push on it is") == crossed
        assert ("loses information" in everything) == bool(p.ties[1] - p.ties[0]), "new ties lose information"
    if p.pairs and not silent:
        mostly = min(map(len, p.wrong)) * 2 > len(p.pairs)
        assert ("Not as it stands" in everything) == (mostly or state.weights[0] == 0)
        assert "The push on correctness, which is its correlation with the advantages, is" in everything
    if p.open[0]:
        assert {p.right[i] for i in p.pile} == {True, False}, "a tie of right and wrong answers is what is outlined"
    for note in drawing["notes"][:1]:
        collapse = len(note["answers"]) > 1
        assert collapse == ("one advantage" in note["lines"][0]) == bool(p.ties[0] or p.ties[1])
        assert not collapse or note["lines"][0].startswith(f"{len(note['answers'])} answers, one advantage: ")


@pytest.mark.slow
@given(st.integers(0, 2**32))
def test_every_sentence_holds_in_every_state(seed):
    rng = random.Random(seed)
    for _ in range(AT_ONCE):
        judge(random_state(rng))


# --- the advice of Use it, on the same states -------------------------------------------------------------------------


def judge_advice(state):
    """Assert that the words on GDPO say what is worst first, with no praise where a reward stops being pushed."""
    state = replace(state, method="gdpo", convention="paper")
    p = Plain(state, draw(state))
    report = advice.of_group(tuple(map(tuple, state.rewards)), state.names, state.weights)
    said = advice.advice_verdict(judged := ga.advise(report))
    verdict = questions.answers_verdict(questions.presets(report, False), report, judged)[0]
    before, after = (round(p.push(side), 2) for side in (0, 1))
    lowered = p.pairs and (after < 0 or 2 * len(p.wrong[1]) > len(p.pairs) or (before > 0.099 and after <= 0))
    stopped = [state.names[k] for k in p.crossing(0, 1)]
    assert "Yes" not in said, (said, state)
    assert not (lowered or stopped) or not said.startswith("**GDPO helps"), (said, state)
    if verdict.startswith("**GDPO") and not verdict.startswith("**GDPO would"):
        assert not (lowered or stopped) and "Not as it stands" not in said and "next to nothing" not in said, state
        assert p.difference >= 0.01, (verdict, state)
    if lowered:
        assert said.startswith("**Not as it stands:**"), (said, state)
    if only := re.match(r"\*\*Only if (.+) may stop improving:\*\*", said):
        assert not lowered and re.findall(r"\b[bc]\b", only[1]) == stopped, (said, state)


def test_a_push_that_is_0_but_for_round_off_raises_nothing():
    # Correctness cancels exactly under GRPO; as computed its push is 8e-17, and −0.01 under GDPO.
    kinds = {"101": 2, "010": 2, "001": 5, "011": 1, "110": 2}
    rewards = tuple(tuple(map(float, kind)) for kind, many in kinds.items() for _ in range(many))
    report = advice.of_group(rewards, ("correctness", "b", "c"), (0.1, 1.2, 1.0))
    push = report.rewards[0]["push"]
    assert abs(push["grpo"]) < 1e-9 and round(push["gdpo"], 2) == -0.01
    said = advice.advice_verdict(ga.advise(report))
    assert said.startswith("**Not as it stands:** no method's update raises correctness.")


def test_a_push_of_an_eighth_is_one_number_under_both_methods():
    # Only b counts, so both methods have the same direction; DVAO's push of 1/8 on correctness ends in another bit.
    marks = ["110", "111", "001", "101", "110", "001", "100", "100", "100", "000", "100", "010"]
    weighed = {"weights": (0.0, 1.2, 0.0), "pays": (0.1, 3.0, 0.3), "method": "dvao", "convention": "axolotl_async"}
    some = replace(random_state(random.Random(0)), primary=0, names=("correctness", "b", "c"), lengths=(50,) * 12)
    state = replace(some, marks=tuple(tuple(map(int, row)) for row in marks), **weighed)
    assert facts(state).base.pushes[0] == facts(state).chosen.pushes[0] == 0.125
    assert len({side[0] for side in draw(state)["pushes"]}) == 1
    judge(state)


# --- a weight below 0 asks for less -----------------------------------------------------------------------------------


def turned(state, k):
    """Return a state in which reward k is passed where it was failed, and its weight has the other sign."""
    marks = tuple((*row[:k], 1 - row[k], *row[k + 1 :]) for row in state.marks)
    weights = (*state.weights[:k], -state.weights[k], *state.weights[k + 1 :])
    return replace(state, marks=marks, weights=weights)


def facts(state):
    return board_facts(state, compute(state, "grpo"), compute(state, state.method))


def judge_turned(state):
    """Assert that a reward that is to be lowered has the effects of its opposite, which is to be raised."""
    before = facts(state)
    for k, weight in enumerate(state.weights):
        after = facts(turned(state, k))
        if weight:
            assert after.right == before.right and after.base.level == before.base.level
            for of in (effects.largest, effects.stopped, effects.started):
                assert of(after) == of(before), (of, state, k)
            assert [x.name for x in effects.not_raised(after)] == [x.name for x in effects.not_raised(before)]


def test_words_on_a_reward_that_is_to_be_lowered_say_so():
    state = replace(STARTS[0], weights=(3.0, 1.0, 1.0), names=("correctness", "style", "concise"))
    assert draw(state)["claim"] == "GDPO no longer raises concise (push +0.21 to −0.03)."
    assert draw(turned(state, 2))["claim"] == "GDPO no longer lowers concise (push −0.21 to +0.03)."
    both = turned(turned(state, 1), 2)
    said = text_of(" ".join(draw(both)["verdict"]))
    assert "GDPO hardly lowers style: the push on it is −0.25 under GRPO and −0.02 under GDPO." in said
    assert "GDPO does not lower concise: the push on it is −0.21 under GRPO and +0.03 under GDPO." in said
    # Of two rewards, one to be raised and one to be lowered, neither verb can be said.
    assert facts(turned(state, 1)).raises([1, 2]) == "serve"
    first = replace(
        STARTS[0], pays=(1.0, 3.0, 10.0), weights=(2.0, 1.0, 0.5), names=("correctness", "style", "concise")
    )
    said, other = draw(first), draw(turned(first, 0))
    assert said["right"] == other["right"] and said["a"] == [pytest.approx(a) for a in other["a"]]
    assert said["claim"].replace("lowers", "raises") == other["claim"] and "lowers correctness" in said["claim"]
    swapped = {"raise": "lower", "lower": "raise", "+": "−", "−": "+"}
    told = re.search("The push on correctness.+?[.](?= |$)", text_of(" ".join(said["verdict"])))[0]
    assert re.sub("raise|lower|[+−](?=[0-9])", lambda m: swapped[m[0]], told) in text_of(" ".join(other["verdict"]))


@pytest.mark.slow
@given(st.integers(0, 2**32))
def test_a_reward_that_is_to_be_lowered_is_judged_as_its_opposite_that_is_to_be_raised(seed):
    rng = random.Random(seed)
    for _ in range(AT_ONCE // 5):
        state = random_state(rng)
        if all(mark in (0, 1) for row in state.marks for mark in row) and state.method in ("gdpo", "grpo_no_std"):
            judge_turned(state)


@pytest.mark.slow
@given(st.integers(0, 2**32))
def test_no_advice_praises_what_stops_a_reward(seed):
    rng = random.Random(seed)
    for _ in range(AT_ONCE // 5):
        judge_advice(random_state(rng))
