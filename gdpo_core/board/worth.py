"""Sentences on whether breaking GRPO's ties helps: on the pairs of answers that end in the wrong order, and on the push
on the primary reward.
"""

from gdpo_core.board.effects import largest, started, stopped
from gdpo_core.board.facts import BoardFacts, Side
from gdpo_core.pushing import OTHER_STEPS, same_step
from gdpo_core.shared.words import count, listing, percent, signed

PAIR = "right–wrong pair"


def worth(facts: BoardFacts) -> str:
    """Return sentences on whether the right answers gain, by order and by push, and on other rewards that only one of
    the methods raises. Without a primary reward there are only the latter.
    """
    rest = _other_rewards(facts)
    if facts.right is None:
        return rest
    first = facts.state.name_of(facts.state.primary or 0)
    if not facts.pairs:
        whole = "All answers are right" if facts.right[0] else "No answer is right"
        raise_ = facts.raises([facts.state.primary or 0])
        alone = f"{whole}, so nothing here {raise_}s {first}: the other rewards alone decide."
        return f"{alone} {rest}".strip()
    no = _not_as_it_stands(facts, first)
    sentences = [no or _broken(facts), "" if facts.mostly_wrong else _wrong_order(facts), _pushes(facts, first)]
    sentences.insert(0 if largest(facts) in ("stopped", "started") else len(sentences), rest)
    return " ".join(filter(None, sentences))


def _other_rewards(facts: BoardFacts) -> str:
    """Return sentences on the rewards that one method pushes as their weights ask, and the other hardly or not at
    all.
    """
    before, after = ([signed(x) for x in side.pushes] for side in (facts.base, facts.chosen))
    sentences = []
    for less, rewards in ((facts.chosen, stopped(facts)), (facts.base, started(facts))):
        for k in rewards:
            raise_ = facts.raises([k])
            hardly = facts.state.wish(k) * round(less.pushes[k], 2) > 0
            not_raise = f"hardly {raise_}s" if hardly else f"does not {raise_}"
            pushes = f"{before[k]} under {facts.base.name} and {after[k]} under {facts.chosen.name}"
            sentences.append(f"**{less.name} {not_raise} {facts.state.name_of(k)}:** the push on it is {pushes}.")
    return " ".join(sentences)


def _not_as_it_stands(facts: BoardFacts, first: str) -> str:
    """Return sentences on why neither method serves the primary reward, named `first`; empty if there is no reason.

    The reasons are that the reward weighs 0, and that most pairs are in the wrong order under both methods.
    """
    base, chosen, weight = facts.base, facts.chosen, facts.weight or 0
    sentences = []
    if weight == 0:
        sentences.append(f"{first} weighs 0, so neither method looks at it.")
    if facts.mostly_wrong:
        shares = [percent(len(side.wrong_order) / len(facts.pairs)) for side in (base, chosen)]
        each = f"under {base.name} and {shares[1]} under {chosen.name}"
        where = "under both methods" if shares[0] == shares[1] else each
        sentences.append(f"{shares[0]} of the {PAIR}s are in the wrong order {where}.")
    return f"**Not as it stands:** {' '.join(sentences)}" if sentences else ""


def _broken(facts: BoardFacts) -> str:
    """Return sentences on the pairs of a right and a wrong answer that the method on the left ties.

    They say what the method on the right does with these pairs: in how many it ranks the right answer higher, in how
    many the wrong one, and how many it ties too. The result is "" where there are no such pairs, and where a method
    gives every answer 0.
    """
    ties, well, badly = len(facts.open_pairs), len(facts.well_broken), len(facts.badly_broken)
    if not ties or facts.base.silent or facts.chosen.silent:
        return ""
    name, kept = facts.chosen.name, ties - well - badly
    first = f"{facts.base.name} ties a right answer with a wrong one in {_pairs(ties)}."
    if kept == ties:
        return f"{first} {name} ties {'it' if ties == 1 else 'these'} too."
    if ties in (well, badly):
        where = "there" if ties == 1 else "in both" if ties == 2 else f"in all {ties}"
        such = f" ({_example(facts.chosen)})" if badly and facts.chosen.wrong_order == facts.badly_broken else ""
        return f"{first} {name} ranks the {'right' if well else 'wrong'} answer higher {where}{such}."
    phrases = [f"the {kind} answer higher in {many}" for kind, many in (("right", well), ("wrong", badly)) if many]
    such = f" ({_example(facts.chosen)})" if badly and facts.chosen.wrong_order == facts.badly_broken else ""
    still = f" It still ties {'the other' if kept == 1 else f'the other {kept}'}." if kept else ""
    return f"{first} {name} ranks {listing(phrases)}{such}.{still}"


def _pairs(many: int) -> str:
    return "one pair" if many == 1 else count(many, "pair")


def _wrong_order(facts: BoardFacts) -> str:
    """Return a sentence on how many pairs each method has in the wrong order, with a wrong answer above a right one.

    If a method gives every answer 0, only the pairs of the other method are counted. Otherwise the sentence is "" if
    `_broken` tells of these pairs already. This is so if only the method on the right has pairs in the wrong order, and
    the method on the left ties all of them.
    """
    base, chosen = facts.base, facts.chosen
    before, after = len(base.wrong_order), len(chosen.wrong_order)
    if base.silent or chosen.silent:
        some = chosen if base.silent else base
        many = len(some.wrong_order) or "none"
        return f"{some.name} has {many} of {count(len(facts.pairs), PAIR)} in the wrong order."
    if not before and not after:
        return "Under neither method does a wrong answer rank above a right one."
    if not before and chosen.wrong_order == facts.badly_broken:
        return ""  # `_broken` tells these pairs, among the ties
    if not before or not after:
        none, some = (base, chosen) if after else (chosen, base)
        such = f", {_example(some)}" if some is chosen else ""
        happens = f"under {some.name} that happens in {_pairs(len(some.wrong_order))}{such}"
        return f"Under {none.name} no wrong answer ranks above a right one; {happens}."
    if base.wrong_order == chosen.wrong_order:
        return _both_still(facts)
    return f"In {before} of {count(len(facts.pairs), PAIR)} {base.name} has the wrong order, {chosen.name} in {after}."


def _both_still(facts: BoardFacts) -> str:
    """Return a sentence on which pairs are in the wrong order under both methods; they have to be the same pairs.

    The sentence names the answers of these pairs if each wrong answer among them is above each right one. Otherwise it
    counts the pairs and gives an example.
    """
    pairs = facts.chosen.wrong_order
    low, high = (sorted({pair[k] + 1 for pair in pairs}) for k in (0, 1))
    still = "still " if facts.well_broken else ""
    if len(low) * len(high) == len(pairs):
        return f"Both methods {still}rank the wrong {_numbered(low)} above the right {_numbered(high)}."
    in_wrong_order = f"{len(pairs)} of {count(len(facts.pairs), PAIR)}"
    return f"Both methods {still}have the same {in_wrong_order} in the wrong order, {_example(facts.chosen)}."


def _numbered(answers: list[int]) -> str:
    return f"answer{'' if len(answers) == 1 else 's'} {listing(answers, most=4)}"


def _example(side: Side) -> str:
    """Return words for the pair in the wrong order whose answers are most ranks apart.

    They begin with “for example” if it is not the only pair in the wrong order.
    """
    level = side.level
    low, high = max(sorted(side.wrong_order), key=lambda pair: level[pair[0]] - level[pair[1]])
    such = "for example " if len(side.wrong_order) > 1 else ""
    return f"{such}the wrong answer {low + 1} above the right answer {high + 1}"


def _pushes(facts: BoardFacts, first: str) -> str:
    """Return a sentence on each method's push on the primary reward, and on whose update raises it more, or lowers it
    more where its weight is below 0.

    first: the name of the primary reward.
    """
    base, chosen = facts.base, facts.chosen
    before, after = (facts.wished(side) for side in (base, chosen))  # a push that is printed as 0 counts as 0
    numbers = [signed(side.push or 0.0) for side in (base, chosen)]
    raise_ = facts.raises([facts.state.primary or 0])
    push = f"The push on {first}, which is its correlation with the advantages,"
    if numbers[0] == numbers[1]:
        return f"{push} is {numbers[0]} under both methods."
    told = f"{push} is {numbers[0]} under {base.name} and {numbers[1]} under {chosen.name}"
    if not same_step("grpo", facts.state.method):
        return f"{told}. {OTHER_STEPS}"
    if max(before, after) <= 0:
        return f"{told}, so in this group neither update {raise_}s {first}."
    more, less = (chosen, base) if after > before else (base, chosen)
    if min(before, after) <= 0:
        return f"{told}, so in this group {more.name}'s update {raise_}s {first} and {less.name}'s does not."
    return f"{told}, so in this group {chosen.name}'s update {raise_}s {first} {'more' if after > before else 'less'}."
