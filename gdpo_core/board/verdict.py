"""The verdict on a state, in two paragraphs: what the two methods tell apart, then what that is worth."""

from itertools import combinations

from gdpo_core import CONVENTIONS
from gdpo_core.board.effects import SAME, largest
from gdpo_core.board.facts import BoardFacts, Side, of_all
from gdpo_core.board.worth import worth
from gdpo_core.numerics.pairs import APART
from gdpo_core.registry import method_named
from gdpo_core.shared.markup import Html, prose
from gdpo_core.shared.words import count, listing, number, percent, signed, word

COMBINATION = "combination of marks", "combinations of marks"
ONE_SPREAD = (
    "At equal weights two marks count alike under {} if both are passed by equally many answers, or if one is passed "
    "by as many answers as fail the other."
)


def verdict(facts: BoardFacts) -> list[Html]:
    """Return what a state of the board shows, in one or two paragraphs.

    One says which answers the methods tell apart, or that one method gives every answer the advantage 0, and why. The
    other says which rewards gain, and is missing where there is nothing to say of that. The one with the largest effect
    comes first. Where both methods give every answer the advantage 0, the first says so, and the second says why.
    """
    if facts.silent:
        sentences = ["**Every advantage is 0, so nothing is learnt from these answers.**", _why_silent(facts)]
    elif facts.base.silent or facts.chosen.silent:
        sentences = [_one_silent(facts), worth(facts)]
    else:
        sentences = [" ".join(filter(None, [_told_apart(facts), *_remarks(facts)])), worth(facts)]
        if largest(facts) in ("not raised", "wrong order", "stopped", "started"):
            sentences.reverse()
    return [prose(sentence) for sentence in sentences if sentence]


# --- nothing to learn -------------------------------------------------------------------------------------------------


def _why_silent(facts: BoardFacts) -> str:
    """Return sentences on why both methods give every answer the advantage 0."""
    state = facts.state
    if facts.mixes == 1:
        return "All answers have the same marks, and a method only compares answers with one another."
    if not any(state.weights):
        return "All weights are 0: give a reward some weight."
    weighed = [column for column, w in zip(zip(*state.marks, strict=True), state.weights, strict=True) if w]
    if all(len(set(column)) == 1 for column in weighed):
        return "The answers differ only in rewards of weight 0."
    names = facts.base.name, facts.chosen.name
    if not method_named(facts.state.method).decoupled:
        return "Under both methods the rewards of every answer have the same sum."
    why = _why_zero(facts) if facts.chosen.left_out else f"Under {names[1]} {_why_zero(facts)}"
    return f"Under {names[0]} the rewards of every answer have the same sum. {why}."


def _one_silent(facts: BoardFacts) -> str:
    """Return sentences on which method gives every answer the advantage 0 while the other does not, and why."""
    none, some = (facts.base, facts.chosen) if facts.base.silent else (facts.chosen, facts.base)
    why = "The rewards of every answer have the same sum." if none is facts.base else f"Here {_why_zero(facts)}."
    first = f"**{none.name} gives every answer an advantage of 0 and teaches nothing; {some.name} teaches something.**"
    return f"{first} {why}"


def _why_zero(facts: BoardFacts) -> str:
    """Return a clause on why the method on the right gives every answer the advantage 0.

    Either it drops answers whose rewards disagree, or the rewards of every answer have the same sum.
    """
    chosen = facts.chosen
    stay = len(chosen.advantages) - chosen.left_out
    if not chosen.left_out:
        normalised = "normalised " * method_named(facts.state.method).decoupled
        return f"the {normalised}rewards of every answer have the same sum"
    answers = of_all(chosen.left_out, len(chosen.advantages), "answer")
    dropped = f"{chosen.name} drops {answers}, as their rewards disagree"
    return dropped + (
        "" if not stay else ", and one has nothing to be compared with" if stay == 1 else ", and the others are alike"
    )


# --- what is told apart -----------------------------------------------------------------------------------------------


def _told_apart(facts: BoardFacts) -> str:
    """Return sentences on which answers the methods tell apart.

    The first, in bold, says which tie the board outlines, or that neither method has a tie. What follows depends on
    whose tie it is:
    - For a tie of the method on the left, the sentences say how many advantages each method has for how many
      combinations of marks.
    - For a tie of the method on the right, they say how many pairs this method ties. The method on the left ties none
      then. They say how many pairs it would tie if all marks had equal pay and weight.
    - If neither has a tie, a sentence says how many pairs the method on the left would tie with equal pay and weight.
    """
    base, chosen = facts.base, facts.chosen
    mixes = count(facts.mixes, *COMBINATION)
    if not facts.pile:
        each = "each has an advantage of its own"
        return (
            f"**Neither {base.name} nor {chosen.name} ties any of the {mixes}: {each}.** {_only_by_pay(facts)}".strip()
        )
    who = _tied_answers(facts)
    if not base.ties:
        lost = count(len(chosen.tied), "pair")
        first = f"**{chosen.name} gives {who} the same advantage; {base.name} ties none.**"
        loss = (
            f"Here {chosen.name} is the method that loses information: in {lost}, answers with different marks get the "
            f"same advantage from {chosen.name}, but not from {base.name}."
        )
        return f"{first} {loss} {_only_by_pay(facts)}".strip()
    levels = len({chosen.level[i] for i in facts.pile})
    then = f"gives them {word(levels)} different ones" if levels > 1 else "ties them too"
    return f"**{base.name} gives {who} the same advantage; {chosen.name} {then}.** {_levels(facts)}"


def _levels(facts: BoardFacts) -> str:
    """Return a sentence on how many different advantages each method gives to the answers' combinations of marks.

    If the method on the left gives fewer, and all marks are passes and fails of equal pay and weight, the sentence
    first says that they are.
    """
    base, chosen = facts.base, facts.chosen
    few, many = (len(set(side.level)) for side in (base, chosen))
    mixes = count(facts.mixes, *COMBINATION)
    if few == many:
        return f"For {mixes} both methods have only {count(few, 'advantage')}."
    if many < few:
        return f"For {mixes} {base.name} has {count(few, 'advantage')}, while {chosen.name} has only {many}."
    of_base, of_chosen = f"{base.name} has only {count(few, 'advantage')}", f"{chosen.name} has {many}"
    if _equal(facts):
        marks = "Here every passed mark pays the same and has the same weight in the sum"
        return f"{marks}, so {of_base} for {mixes}, while {of_chosen}."
    return f"For {mixes} {of_base}, while {of_chosen}."


def _tied_answers(facts: BoardFacts) -> str:
    """Return words for the number of answers in the tie that the board outlines, such as "three answers".

    If both right and wrong answers are among them, the words say how many of each.
    """
    right = sum(facts.right[i] for i in facts.pile) if facts.right else 0
    wrong = len(facts.pile) - right
    both = f", {word(right)} right and {word(wrong)} wrong," if facts.right and right and wrong else ""
    return f"{word(len(facts.pile))} answers{both}"


def _equal(facts: BoardFacts) -> bool:
    """Return whether all marks are passes and fails of equal pay and weight."""
    state = facts.state
    return state.binary and len(set(state.pays)) == len(set(state.weights)) == 1


def _only_by_pay(facts: BoardFacts) -> str:
    """Return a sentence on how many pairs the method on the left would tie if all pays and weights were equal.

    The sentence is "" if it would tie none, if it ties some pairs now, or if not all marks are passes and fails.
    """
    marks = facts.state.marks
    if not facts.state.binary or facts.base.ties:
        return ""
    pairs = sum(sum(first) == sum(second) and first != second for first, second in combinations(marks, 2))
    return f"With equal pay and weights {facts.base.name} would tie {count(pairs, 'pair')}." if pairs else ""


def _remarks(facts: BoardFacts) -> list[str]:
    """Return sentences on what else the advantages show, each "" or missing if it does not apply.

    They are on the distance between the advantages of the two methods, and on ties of the method on the right. Then
    come the scores' share of the update, and leave-one-out.
    """
    return [_distances(facts), *_ties_of_the_other(facts), _score(facts), _alone(facts)]


def _ties_of_the_other(facts: BoardFacts) -> list[str]:
    """Return sentences on the ties of the method on the right. The list is empty if that method ties nothing.

    They say, where it applies:
    - how many of the left-hand method's tied pairs the right-hand method also ties, if some but not all;
    - how many pairs the right-hand method ties and the left-hand method tells apart, if the left-hand method ties any;
    - how many ties of the right-hand method are not exact, because of an ε in its convention;
    - when two rewards are interchangeable under the right-hand method, if `_one_spread` finds two that are.
    """
    chosen, base = facts.chosen, facts.base
    if not chosen.tied:
        return []
    sentences = []
    new, kept = len(facts.new_ties), len(chosen.tied & base.tied)
    if base.ties and 0 < kept < len(base.tied):
        sentences.append(f"{chosen.name} still ties {of_all(kept, len(base.tied), 'pair')}.")
    if base.ties and new:
        sentences.append(
            f"{chosen.name} also ties {count(new, 'pair')} that {base.name} tells apart, and so loses information."
        )
    if chosen.by_eps:
        name = CONVENTIONS[facts.state.convention].name
        sentences.append(
            f"{_pairs_by_eps(chosen)} {name} adds a small ε to its divisors, which leaves a difference between the two "
            f"advantages. As this difference is less than {percent(APART)} of the largest advantage, the two answers "
            "of such a pair count as tied."
        )
    if _one_spread(facts):
        sentences.append(ONE_SPREAD.format(chosen.name))
    return sentences


def _pairs_by_eps(chosen: Side) -> str:
    """Return the first words of a sentence on the tied pairs whose two advantages differ because of the ε alone."""
    many, tied = chosen.by_eps, len(chosen.tied)
    which = f"The {'pair' if tied == 1 else f'{tied} pairs'}" if many == tied else f"{many} of the {tied} pairs"
    return f"{which} that {chosen.name} ties {'is' if many == 1 else 'are'} not tied exactly:"


def _one_spread(facts: BoardFacts) -> bool:
    """Return whether two rewards are interchangeable to the method on the right, because their marks have the same
    spread.

    They can be so only under GDPO and MO-GRPO, if all marks are passes and fails and all rewards weigh the same.
    """
    state = facts.state
    passes = [sum(column) for column in zip(*state.marks, strict=True)]
    alike = any(j == k or j + k == len(state.marks) for j, k in combinations(passes, 2))
    return alike and state.binary and len(set(state.weights)) == 1 and state.method in ("gdpo", "mo_grpo")


def _distances(facts: BoardFacts) -> str:
    """Return a sentence on how far apart the advantages of the two methods are.

    If no advantage differs by `SAME` or more, the sentence says just this. Otherwise it is "" if the methods order the
    answers differently. If they have one order, and one factor turns the advantages of the left-hand method into
    the advantages of the right-hand method, it names the factor. If no single factor fits, it says which answer differs
    most.
    """
    base, chosen = facts.base, facts.chosen
    if facts.difference < SAME:
        return f"No advantage differs by as much as {SAME}."
    if not facts.same_order:
        return ""
    if facts.factor is not None:
        steps = "longer" if facts.factor > 1 else "shorter"
        digits = 4 if number(facts.factor, 3) == "1" else 3
        times = f"{number(facts.factor, digits)} times those of {base.name}"
        return f"The advantages of {chosen.name} are {times}: {steps} steps in the same direction."
    gaps = [abs(x - y) for x, y in zip(base.advantages, chosen.advantages, strict=True)]
    most = gaps.index(max(gaps))
    before, after = signed(base.advantages[most]), signed(chosen.advantages[most])
    gets = f"answer {most + 1} gets {before} under {base.name} and {after} under {chosen.name}"
    return f"Both put the answers in the same order, but {gets}."


def _score(facts: BoardFacts) -> str:
    """Return a sentence on the share of the scores in each update; empty unless scores stand beside passes and fails.

    A score is a reward whose marks are numbers.
    """
    state, both = facts.state, (facts.base, facts.chosen)
    if not 0 < len(state.numbers) < len(state.pays):
        return ""
    base, chosen = (percent(sum((side.shares or ())[k] for k in state.numbers)) for side in both)
    names = listing(state.name_of(k) for k in state.numbers)
    score, have = ("score", "has") if len(state.numbers) == 1 else ("scores", "have")
    shares = f"{base} in {both[0].name}'s update and of {chosen} in {both[1].name}'s"
    return f"The {score}, {names}, {have} a share of {shares}."


def _alone(facts: BoardFacts) -> str:
    """Return a sentence on a mark in which one answer differs from all others, under a convention with leave-one-out.

    The others agree, so they have no spread by which this mark could be divided. The sentence is about the first reward
    with a weight in which one answer differs so. It is empty under other conventions, for methods that do not normalise
    each reward, and where no answer differs so.
    """
    state = facts.state
    if not CONVENTIONS[state.convention].leave_one_out or not method_named(state.method).decoupled:
        return ""
    for k, column in enumerate(zip(*state.marks, strict=True)):
        lone = [i for i, mark in enumerate(column) if column.count(mark) == 1 and len(set(column)) == 2]
        if len(lone) == 1 and state.weights[k]:
            return (
                f"Leave-one-out compares answer {lone[0] + 1} with the others alone. They agree in {state.name_of(k)}, "
                "so its mark is not divided by a spread."
            )
    return ""
