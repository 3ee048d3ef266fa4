"""The words of Train: the headline, what is trained and how, how the set-ups end, and what each of them teaches."""

from collections.abc import Sequence

from gdpo_core.shared.markup import Html, join, prose, tag
from gdpo_core.shared.words import count, percent, word
from views.studies.scenarios import (
    ALIKE_EPOCHS,
    ALIKE_SHARE,
    ALIKE_TIMES,
    ENDS,
    FASTER,
    LEARNT,
    NEITHER,
    NO_DIFFERENCE,
    SLOWER,
    Scenario,
    Setup,
)
from views.widgets import glossary

WAY_TITLES = {"equal": "Steps of equal size", "published": "Each as published", "neither": "Without the batch step"}
UNDER = {"equal": "With steps of equal size", "published": "As published", "neither": "Without the batch step"}
HEADLINES = {  # of 60 characters at most, so that each stays on one line
    "equal": "Where scales differ, GDPO is faster with SGD, not with Adam.",
    "published": "As published, GDPO also gains where successes are rare.",
    "neither": "Without the batch step, longer steps look like better ones.",
}
PREDICT = "Which method learns faster? Predict first, then look."
PREDICTIONS_ASKED = (  # for coins and for answers: the question, and the words of its options by verdict
    (
        f"Which method brings all coins to {LEARNT:g} first?",
        {FASTER: "GDPO", SLOWER: "GRPO", NO_DIFFERENCE: "no difference", NEITHER: "neither gets there"},
    ),
    ("Which method learns the right answer?", {end: end.removeprefix("right under ") for end in ENDS}),
)


def train_headline(comparison: str, predicts: bool, reply: str = "") -> str:
    """Return the headline of the chapter: its claim about the methods. If the reader predicts first, it is a question
    instead, or the reply to a prediction. `tests/test_train.py` tests the claims on our set-ups.

    comparison: how the methods are compared, a key of HEADLINES.
    predicts: whether the reader predicts first.
    reply: the reply to what was predicted of the chosen set-up, "" if nothing was.
    """
    return (reply or PREDICT) if predicts else HEADLINES[comparison]


def lead(setup: Setup) -> Html:
    """Return the sentences below the headline: what is trained, and what to look at in the curves."""
    policy, epochs = glossary.term("policy"), count(setup.epochs, "epoch")
    if setup.arms:
        chooses = f" that chooses among {word(len(setup.p0))} answers. "
        trained = join(f"For {epochs} we train a toy ", policy, chooses, "Each answer earns what its marks pay. ")
        return join(trained, tag("b", "Look at which answer ends near 1."))
    coins = f" of {count(len(setup.p0), 'coin')}: each coin is a mark of the Lab, and a 1 is a pass. "
    trained = join(f"For {epochs} we train a toy ", policy, coins, "The curves show how likely a 1 becomes. ")
    return join(trained, tag("b", f"See where each crosses {LEARNT:g}."))


def title(scenario: Scenario, given: bool) -> str:
    """Return the title of what is trained: that of the scenario, or words that the reader changed it.

    given: whether the set-up is the scenario's own, unchanged by the reader.
    """
    return scenario.title if given else f"Changed from “{scenario.title}”"


def caption(setup: Setup) -> str:
    """Return a line on what the curves show: the policy, the number of seeds and epochs, the optimizer, and how the
    methods are compared.

    >>> caption(Setup((0.5, 0.5), noise=(0, 0, 1)))
    'Bernoulli policy · 2 coins and a reward of noise alone · 32 seeds · 150 epochs · SGD · steps of equal size'
    """
    many = len(setup.p0)
    what = f"Softmax policy · {count(many, 'answer')}" if setup.arms else f"Bernoulli policy · {count(many, 'coin')}"
    if not setup.arms and setup.rewards > many:
        what += " and a reward of noise alone"
    optimizer = {"sgd": "SGD", "adam": "Adam"}[setup.optimizer]
    trained = f"{count(setup.seeds, 'seed')} · {count(setup.epochs, 'epoch')} · {optimizer}"
    return f"{what} · {trained} · {WAY_TITLES[setup.comparison].lower()}"


def comparison_counts(
    comparison: str, kinds: Sequence[str], arms: Sequence[Scenario], uncounted: Sequence[Scenario]
) -> Html:
    """Return sentences that say in how many of our set-ups of coins GDPO is faster, slower or no different under a
    comparison.

    A set-up that was made for another comparison alone does not count.

    comparison: a key of COMPARISONS.
    kinds: the verdicts on the set-ups of coins that count.
    arms: the scenarios in which the policy chooses one of several answers. All of them have the same number of answers.
    uncounted: the scenarios of the set-ups of coins that do not count.
    """
    faster, slower, never = (kinds.count(kind) for kind in (FASTER, SLOWER, NEITHER))
    rest = len(kinds) - faster - slower
    ends = (
        f", GDPO is faster in {faster} of {count(len(kinds), 'coin set-up')}, slower in {slower} and no different in "
    )
    ends += f"{rest}{f' (in {never} neither method gets there)' if never else ''}. "
    answers = word(len(arms[0].setup.p0))
    conflicts = (
        f"In {len(arms)} more set-ups the rewards conflict: there the policy settles on one of {answers} answers, of "
        "which one is right."
    )
    return join(tag("b", UNDER[comparison]), ends, _dashed(uncounted), conflicts)


def _dashed(set_ups: Sequence[Scenario]) -> str:
    """Return a sentence on the set-up that does not count under the chosen comparison, because it was made for another
    comparison; its card is dashed. "" if there is no such set-up.

    set_ups: the scenario of that set-up, or none.

    Raises ValueError for several, for which the sentence has no plural. `tests/test_train.py` makes sure that under
    each comparison there is at most one.
    """
    if not set_ups:
        return ""
    (scenario,) = set_ups
    made_for = WAY_TITLES[scenario.setup.comparison]
    return f"“{scenario.title}”, which is dashed, does not count here, because it is made for “{made_for}”. "


def method(key: str, words: object) -> Html:
    """Return words in the colour of the method `key`."""
    return tag("b", words, kind=key)


def probability(p: float) -> str:
    """Return a probability as text with two decimals; below 0.005 "under 0.01", and above 0.995 "over 0.99".

    >>> probability(0.98765), probability(0.9992), probability(0.0001)
    ('0.99', 'over 0.99', 'under 0.01')
    """
    if p > 0.995 or p < 0.005:
        return "over 0.99" if p > 0.5 else "under 0.01"
    return f"{p:.2f}"


# --- its reason ------------------------------------------------------------------------------------------------------


def why(scenario: Scenario, setup: Setup, given: bool) -> Html:
    """Return the paragraph on what a scenario teaches under the comparison of a set-up.

    given: whether the set-up is the scenario's own, unchanged by the reader.
    """
    about = "Why" if given else "You changed this set-up. Unchanged it shows"
    lesson = scenario.lesson_of(setup.comparison)
    return tag("p", tag("b", about), ": ", lesson, kind="why")


def how_it_learns(setup: Setup) -> Html:
    """Return paragraphs that say in plain words what is trained and how, what the batch step is for, and what the lines
    of the chart show.
    """
    drawn = (
        "The policy throws a few coins, and it sets how likely each of them is to show 1; this is called a Bernoulli "
        "policy. An answer is one throw of all coins."
    )
    outcome = "b is what the coin showed, 1 or 0, and p is the probability of a 1"
    if setup.arms:
        drawn = f"The policy chooses among {word(len(setup.p0))} answers by a softmax over their logits."
        outcome = "b is 1 for the answer that was drawn and 0 for the others, and p is the probability of each"
    sentences = (
        f"**The policy.** {drawn} In each epoch {count(setup.prompts, 'group')} of {count(setup.rollouts, 'answer')} "
        "are drawn, and the advantage A of each answer is computed. An answer with a positive advantage becomes more "
        "likely, one with a negative advantage less likely. Each logit moves along the mean of A (b − p), the "
        f"score-function gradient, where {outcome}.",
        "**The batch step.** GDPO divides all advantages of a batch by their standard deviation, GRPO does not. A "
        "method whose steps are merely longer would win without being better. By default every method therefore gets "
        "GDPO's batch step, which makes the steps of all methods equal in size. The choice “**Each as published**” "
        "gives the batch step to GDPO alone. The choice “**Without the batch step**” takes it away from GDPO too, as "
        "many demos do; GDPO's steps are then longer than GRPO's.",
        "**Thin lines** show the limit that is approached as groups become larger and larger.",
    )
    if not setup.arms:
        sentences += (
            "**Equally fast.** A method is as fast as the coin that it learns last: what counts is the number of "
            f"epochs until that coin reaches p = {LEARNT:g}, as a median over {count(setup.seeds, 'seed')}. Two "
            f"methods are equally fast if these medians differ by at most {percent(ALIKE_SHARE)}, or if they differ by "
            f"at most {ALIKE_EPOCHS} epochs and the larger is less than {ALIKE_TIMES:g} times the smaller.",
        )
    return join(*(tag("p", prose(sentence)) for sentence in sentences))
