"""The verdict of Train on the runs that it shows, in sentences. The sentences follow from the runs' medians over seeds,
and are true for every set-up that a reader may choose.
"""

from collections.abc import Mapping, Sequence
from math import inf

from gdpo_core.shared.markup import Html, join, tag
from gdpo_core.shared.words import count, listing
from views.chapters.train.runs import COMPARED_METHODS, METHOD_LABELS, TrainedRuns
from views.chapters.train.train_words import UNDER, method, probability
from views.studies.scenarios import FASTER, LEARNT, NEITHER, NO_DIFFERENCE, Setup, alike, medians, verdict_on_coins

_EVERY = "every coin"  # the words for all coins, where each of them can be learnt
UNMOVED = 0.001  # a probability that moved by less counts as unmoved
_Steps = Mapping[str, Sequence[float]]  # by method, the median epoch at which each coin is learnt


def result(setup: Setup, coins: Sequence[str], runs: TrainedRuns) -> Html:
    """Return the verdict on runs as a paragraph: a sentence in bold, further sentences, and one on each method besides
    GRPO and GDPO.

    coins: the names of the coins or answers.
    runs: the trained runs, by method.
    """
    head, *more = _of_arms(setup, coins, runs) if setup.arms else _of_coins(setup, coins, runs)
    under = "" if setup.comparison == "equal" else f"{UNDER[setup.comparison]}: "
    more += [_of_third(setup, coins, m, runs) for m in runs if m not in COMPARED_METHODS]
    return tag("p", tag("b", under, head), *(join(" ", sentence) for sentence in more if sentence))


# --- coins -----------------------------------------------------------------------------------------------------------


def learnable(setup: Setup) -> list[int]:
    """Return the numbers, from 0, of the coins that a method can learn: the coins whose weight and pay are not 0.

    If one draw sometimes decides for all coins (`together` is above 0), all coins can be learnt as soon as one of them
    can.

    >>> learnable(Setup((0.5, 0.5), weights=(0, 1))), learnable(Setup((0.5, 0.5), weights=(0, 1), together=0.5))
    ([1], [0, 1])
    """
    many = range(len(setup.p0))
    weights, pays = setup.weights or (1.0,) * setup.rewards, setup.scale or (1.0,) * len(many)
    counted = [k for k in many if weights[k] and pays[k]]
    return [*many] if counted and setup.together else counted


def _of_coins(setup: Setup, coins: Sequence[str], runs: TrainedRuns) -> list[Html | str]:
    """Return the sentences on GRPO and GDPO if the policy has coins, the bold sentence first.

    coins: the names of the coins.
    runs: the trained runs, by method.
    """
    judged = learnable(setup)
    if not judged:
        return ["Nothing is learnt: no coin's reward counts."]
    names = [coins[k] for k in judged]
    every = _all(judged, coins)
    steps = {m: [medians(runs[m])[k] for k in judged] for m in COMPARED_METHODS}
    kind = verdict_on_coins(*steps.values())
    if kind == NEITHER:
        within = f"within {count(setup.epochs, 'epoch')}"
        sentences = [f"Neither GRPO nor GDPO brings {every} to p = {LEARNT:g} {within}.", _some(steps)]
    elif kind == NO_DIFFERENCE:
        sentences = [_pace(steps, every), *_apart(steps, names)]
    else:
        pays = [setup.scale[k] if setup.scale else 1.0 for k in judged]
        first, second = ("gdpo", "grpo") if kind == FASTER else ("grpo", "gdpo")
        ordered = {first: steps[first], second: steps[second]}
        sentences = [_first(ordered, every, setup.epochs), _loss(ordered, names, pays)]
    return [*sentences, _left([coin for k, coin in enumerate(coins) if k not in judged])]


def _all(judged: Sequence[int], coins: Sequence[str]) -> str:
    """Return words for all coins that can be learnt.

    judged: their numbers, from 0.
    coins: the names of all coins.
    """
    return _EVERY if len(judged) == len(coins) else _named([coins[k] for k in judged])


def _named(coins: Sequence[str]) -> str:
    """Return the names of coins in words, as in "the first coin and the style coin"."""
    return listing(f"the {coin}" if coin.endswith("coin") else f"the {coin} coin" for coin in coins)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _epochs(key: str, steps: float, unit: bool = False) -> Html:
    """Return a number of epochs in the colour of the method `key`.

    steps: the number of epochs.
    unit: whether the word "epoch" or "epochs" follows the number.
    """
    return join(method(key, f"{steps:g}"), f" epoch{'' if steps == 1 else 's'}" if unit else "")


def _left(coins: Sequence[str]) -> str:
    """Return a sentence that these coins are not learnt, because their reward does not count; "" without coins."""
    them = "it" if len(coins) == 1 else "them"
    return f"The reward of {_named(coins)} does not count, so no method trains {them}." if coins else ""


def _some(steps: _Steps) -> str:
    """Return a sentence on how many coins each method learns, for the case that neither method learns all coins. For a
    single coin it is "".

    steps: by method, the epoch at which each coin is learnt, infinite for never.
    """
    grpo, gdpo = (sum(epoch < inf for epoch in steps[m]) for m in COMPARED_METHODS)
    many = len(steps["grpo"])
    if not grpo and not gdpo:
        return "Neither brings a single coin there." if many > 1 else ""
    return f"Each brings {grpo} of {many} there." if grpo == gdpo else f"GDPO brings {gdpo} there, GRPO {grpo}."


def _pace(steps: _Steps, every: str) -> Html:
    """Return a sentence on how many epochs each method needs to learn all coins. It is meant for methods that are about
    as fast.

    steps: by method, the epoch at which each coin is learnt.
    every: words for all coins that are to be learnt.
    """
    grpo, gdpo = (max(steps[m]) for m in COMPARED_METHODS)
    if grpo == gdpo == 0:
        starts = "starts" if every == _EVERY or len(steps["grpo"]) == 1 else "start"
        return join(f"Nothing is left to learn: {every} {starts} at p = {LEARNT:g} or above.")
    if grpo == gdpo:
        return join(f"GRPO and GDPO both bring {every} to p = {LEARNT:g} in {count(grpo, 'epoch')}.")
    first = join("GRPO brings ", every, f" to p = {LEARNT:g} in ", _epochs("grpo", grpo, True))
    return join("No clear difference: ", first, ", GDPO in ", _epochs("gdpo", gdpo), ".")


def _apart(steps: _Steps, names: Sequence[str]) -> list[Html]:
    """Return a sentence for each coin that clearly takes GRPO more epochs to learn than GDPO, or GDPO more than GRPO.

    steps: by method, the epoch at which each coin is learnt.
    names: the names of the coins, in the same order.
    """
    apart = [
        (name, grpo, gdpo)
        for name, grpo, gdpo in zip(names, steps["grpo"], steps["gdpo"], strict=True)
        if not alike(grpo, gdpo)
    ]
    return [
        join(_capital(_named([name])), " takes ", _epochs("grpo", grpo, True), " under GRPO, ", _epochs("gdpo", gdpo),
             " under GDPO.")
        for name, grpo, gdpo in apart
    ]  # fmt: skip


def _first(steps: _Steps, every: str, epochs: int) -> Html:
    """Return a sentence on how many epochs the faster and the slower method need to learn all coins.

    steps: for the faster method and then for the slower one, the epoch at which each coin is learnt, infinite for
        never.
    every: words for all these coins.
    epochs: how many epochs were trained. The sentence says so of a slower method that does not learn all coins.
    """
    (first, ahead), (second, behind) = steps.items()
    head = join(f"{METHOD_LABELS[first]} brings {every} to p = {LEARNT:g} in ", _epochs(first, max(ahead), True), ", ")
    if max(behind) == inf:
        return join(head, f"{METHOD_LABELS[second]} does not within {epochs}.")
    return join(head, f"{METHOD_LABELS[second]} in ", _epochs(second, max(behind)), ".")


def _loss(steps: _Steps, names: Sequence[str], pays: Sequence[float]) -> Html | str:
    """Return a sentence on the coins that the faster method learns clearly later than the slower one; "" if there are
    none.

    steps: for the faster method and then for the slower one, the epoch at which each coin is learnt.
    names, pays: the names and the pays of the coins, in the order of the epochs in `steps`.
    """
    pairs = [*zip(*steps.values(), strict=True)]
    lost = [k for k, (took, would) in enumerate(pairs) if took > would and not alike(took, would)]
    if not lost:
        return ""
    best = len(lost) == 1 and [pay for pay in pays if pay >= pays[lost[0]]] == [pays[lost[0]]] and len(pays) > 1
    who = "The best-paid coin" if best else _capital(_named([names[k] for k in lost]))
    took, would = (method(m, listing(f"{steps[m][k]:g}" for k in lost)) for m in steps)
    verb = ", however, takes " if len(lost) == 1 else ", however, take "
    return join(who, verb, took, f" epochs under {METHOD_LABELS[next(iter(steps))]} instead of ", would, ".")


# --- answers, and a third method -------------------------------------------------------------------------------------


def _of_arms(setup: Setup, answers: Sequence[str], runs: TrainedRuns) -> list[Html | str]:
    """Return two sentences on GRPO and GDPO if the policy chooses among answers. The first, which is shown in bold,
    says on which answer each method settles. The second says at which probability the right answer ends.

    answers: the names of the answers, the right answer first.
    runs: the trained runs, by method.
    """
    last = {m: runs[m].p[:, -1].median(0).values.tolist() for m in COMPARED_METHODS}
    ends = {m: answers[p.index(max(p))] if max(p) >= LEARNT else "" for m, p in last.items()}
    if all(abs(a - b) < UNMOVED for p in last.values() for a, b in zip(p, setup.p0, strict=True)):
        head = "Neither GRPO nor GDPO learns anything."
    elif not any(ends.values()):
        head = "Neither GRPO nor GDPO settles on an answer."
    elif ends["grpo"] == ends["gdpo"]:
        head = f"GRPO and GDPO both settle on “{ends['grpo']}”."
    else:
        settles = [f"settles on “{end}”" if end else "does not settle" for end in ends.values()]
        head = f"GRPO {settles[0]}, GDPO {settles[1].removeprefix('settles ') if all(ends.values()) else settles[1]}."
    grpo, gdpo = (method(m, _end(p[0])) for m, p in last.items())
    return [head, join("The right answer's probability ends ", grpo, " with GRPO and ", gdpo, " with GDPO.")]


def _end(p: float) -> str:
    """Return words for a final probability, such as "at 0.99"; they never say that it is 0 or 1.

    >>> _end(0.98765), _end(0.9992), _end(0.0001)
    ('at 0.99', 'over 0.99', 'under 0.01')
    """
    words = probability(p)
    return words if " " in words else f"at {words}"


def _of_third(setup: Setup, coins: Sequence[str], key: str, runs: TrainedRuns) -> str:
    """Return a sentence on the third method, to follow the sentences of `_of_coins` or `_of_arms`; "" if the policy has
    coins and none can be learnt.

    coins: the names of the coins or answers.
    key: the id of the third method.
    runs: the trained runs, by method.
    """
    name = METHOD_LABELS[key]
    if setup.arms:
        last = runs[key].p[:, -1, 0].median().item()
        return f"With {name} it ends {_end(last)}."
    judged = learnable(setup)
    if not judged:
        return ""
    every, within = _all(judged, coins), count(setup.epochs, "epoch")
    steps = [medians(runs[key])[k] for k in judged]
    learnt = sum(epoch < inf for epoch in steps)
    if learnt < len(judged):
        how_many = f": it brings {learnt or 'none'} of the {len(judged)} there" * (len(judged) > 1)
        return f"{name} does not bring {every} to p = {LEARNT:g} within {within}{how_many}."
    if max(steps) == 0:
        return f"Nor is anything left for {name} to learn."
    return f"{name} brings {every} to p = {LEARNT:g} in {count(max(steps), 'epoch')}."
