"""What Train says: the headline, the verdict on the runs, its reason, and how it is trained."""

from collections.abc import Sequence
from math import inf

from gdpo_core._html import Html, join, prose, tag
from gdpo_core._words import count, percent
from gdpo_core.scenarios import (
    ALIKE_EPOCHS,
    ALIKE_SHARE,
    ENDS,
    LEVEL,
    VERDICTS,
    Scenario,
    Setting,
    alike,
    medians,
    verdict,
)
from views import terms
from views.train.runs import BAND, COMPARED, NAMES, Runs

UNMOVED = 0.001  # of a probability, from where it started
SAME, FASTER, SLOWER, NEITHER = VERDICTS
TITLES = {"equal": "Steps of equal size", "published": "Each as published", "neither": "No last step for either"}
UNDER = {
    "equal": "With steps of equal size",
    "published": "Each as published",
    "neither": "With no last step for either",
}
HEADLINES = {
    "equal": "GDPO helps where unequal scales drown a reward, and hurts where the sum was right as it is",
    "published": "As published, GDPO also gains where successes are rare",
    "neither": "Without a last step GDPO also seems faster where it only takes longer steps",
}
QUESTIONS = (  # of coins, of answers: the question, and of each verdict how one says it
    (
        f"Who has every coin at {LEVEL:g} first?",
        {FASTER: "GDPO", SLOWER: "GRPO", SAME: "no difference", NEITHER: "neither gets there"},
    ),
    ("Which method learns the right answer?", {end: end.removeprefix("right under ") for end in ENDS}),
)


def headline(comparison: str, kinds: Sequence[str], score: str | None) -> Html:
    """The chapter's claim and the verdicts on our set-ups of coins; score: of who predicts, and is told neither."""
    faster, slower = kinds.count(FASTER), kinds.count(SLOWER)
    counts = f"{UNDER[comparison]}, of our {len(kinds)} set-ups GDPO is faster in {faster}, slower in {slower}, and no "
    counts += f"different in {len(kinds) - faster - slower}."
    if score is not None:
        counts = score or "Choose a set-up and say how it ends; its curves come then."
    policy = join("the smallest ", terms.term("policy"), " with several rewards (plain gradient steps)")
    lead = join("A few coins stand for the marks of an answer. Each pays when it falls on 1: ", policy, ". ")
    shown = join("Each picture follows the slowest under ", method("grpo", "GRPO"), " and ", method("gdpo", "GDPO"))
    title = "Which method learns faster? Predict, then look" if score is not None else HEADLINES[comparison]
    return join(
        tag("h1", title),
        tag("p", lead, shown, " (dashed). ", tag("b", counts), kind="lead"),
    )


def method(key: str, said: object) -> Html:
    """What is said of a method, in its colour."""
    return tag("b", said, kind=key)


def probability(p: float) -> str:
    """Two decimals that never say always or never.

    >>> probability(0.98765), probability(0.9992), probability(0.0001)
    ('0.99', 'over 0.99', 'under 0.01')
    """
    if p > 0.995 or p < 0.005:
        return "over 0.99" if p > 0.5 else "under 0.01"
    return f"{p:.2f}"


# --- the verdict -----------------------------------------------------------------------------------------------------


def result(setting: Setting, coins: Sequence[str], runs: Runs) -> Html:
    """The verdict on these runs in words: of which comparison it is, and what it shows."""
    kind = verdict(runs, bool(setting.arms))
    sentence = _of_arms(setting, runs, coins) if setting.arms else _of_coins(setting, runs, coins, kind)
    further = " ".join(_of_third(setting, m, runs) for m in runs if m not in COMPARED)
    return join(tag("p", UNDER[setting.comparison], ": ", sentence), tag("p", further, kind="beside"))


def _of_coins(setting: Setting, runs: Runs, coins: Sequence[str], kind: str) -> Html:
    grpo, gdpo = (medians(runs[m]) for m in COMPARED)
    a, b = _epochs("grpo", max(grpo)), _epochs("gdpo", max(gdpo))
    level = f" at {LEVEL:g} "
    if kind == NEITHER:
        return join(tag("b", "neither method"), f" has every coin{level}within {setting.epochs} epochs.")
    if inf in (max(grpo), max(gdpo)):
        first, last, when = ("GDPO", "GRPO", b) if kind == FASTER else ("GRPO", "GDPO", a)
        head = tag("b", f"{first} gets there, {last} does not")
        return join(head, f": {first} has every coin{level}after ", when, f" epochs, {last} not in {setting.epochs}.")
    if kind == SAME:
        apart = [k for k in range(len(coins)) if not alike(grpo[k], gdpo[k])]
        more = _other(max(apart, key=lambda k: abs(gdpo[k] - grpo[k])), grpo, gdpo, coins) if apart else ""
        pace = join("every coin is", level, "after ", a, " epochs under GRPO, ", b, " under GDPO.")
        return join(tag("b", "no difference"), ", ", pace, more)
    if kind == FASTER:
        behind = max(range(len(coins)), key=lambda k: gdpo[k] - grpo[k])
        late = gdpo[behind] > grpo[behind] and not alike(grpo[behind], gdpo[behind])
        more = _other(behind, grpo, gdpo, coins) if late else ""
        return join("the slowest coin is", level, "after ", b, " epochs under GDPO, ", a, " under GRPO.", more)
    head = tag("b", "GDPO is slower")
    return join(head, ", with the slowest coin", level, "after ", b, " epochs; under GRPO after ", a, ".")


def _epochs(key: str, steps: float) -> Html:
    return method(key, f"{steps:g}")


def _other(k: int, grpo: Sequence[float], gdpo: Sequence[float], coins: Sequence[str]) -> Html:
    order = "later" if gdpo[k] > grpo[k] else "sooner"
    never = max(grpo[k], gdpo[k]) == inf
    when = "" if never else join(": after ", _epochs("gdpo", gdpo[k]), ", not ", _epochs("grpo", grpo[k]))
    return join(f" But the {coins[k]} is there {order} under GDPO", when, ".")


def _of_arms(setting: Setting, runs: Runs, coins: Sequence[str]) -> Html:
    last = {m: runs[m].p[:, -1].median(0).values.tolist() for m in COMPARED}
    likeliest = {m: p.index(max(p)) for m, p in last.items()}
    grpo, gdpo = (method(m, probability(p[0])) for m, p in last.items())
    after = f" After {setting.epochs} epochs the right answer has a probability of "
    if all(abs(a - b) < UNMOVED for p in last.values() for a, b in zip(p, setting.p0, strict=True)):
        head = "nothing is learnt"
    elif all(max(p) < LEVEL for p in last.values()):
        head = "neither settles"
    elif likeliest["grpo"] == likeliest["gdpo"] and min(map(max, last.values())) >= LEVEL:
        head = f"both methods end {coins[likeliest['grpo']]}"
    else:
        head = ", ".join(f"{NAMES[m]} {_ends(last[m], coins)}" for m in COMPARED)
    return join(tag("b", head), ".", after, grpo, " under GRPO, ", gdpo, " under GDPO.")


def _ends(p: Sequence[float], coins: Sequence[str]) -> str:
    return f"ends {coins[p.index(max(p))]}" if max(p) >= LEVEL else "does not settle"


def _of_third(setting: Setting, key: str, runs: Runs) -> str:
    if setting.arms:
        return f"{NAMES[key]} gives the right answer with {probability(runs[key].p[:, -1, 0].median().item())}."
    steps = max(medians(runs[key]))
    when = f"not within {setting.epochs} epochs" if steps == inf else f"after {steps:g} epochs"
    return f"{NAMES[key]} has every coin there {when}."


# --- its reason ------------------------------------------------------------------------------------------------------


def why(scenario: Scenario, setting: Setting, given: bool) -> Html:
    """What to learn from the scenario."""
    about = "Why" if given else f"Changed. As it was, “{scenario.title}” shows"
    lesson = scenario.lesson_of(setting.comparison)
    return tag("p", tag("b", about), ": ", lesson, kind="why")


def how_it_learns(setting: Setting) -> Html:
    """What is trained and how, in plain words."""
    drawn = "The policy is a few coins. A coin that falls on 1 earns its reward; the policy sets how likely that is."
    outcome = "b is 1 or 0, as the coin fell, and p its probability of a 1"
    if setting.arms:
        drawn = "The policy is a softmax over three answers."
        outcome = "b is 1 for the answer that was drawn and 0 for the others, p their probabilities"
    sentences = (
        f"**The policy.** {drawn} An epoch draws {setting.prompts} groups of {setting.rollouts} answers, "
        "computes their advantages, and makes what got a positive one likelier, what got a negative one less "
        f"likely: each logit moves along the mean of A (b − p), the score-function gradient; {outcome}.",
        "**The last step.** GDPO divides all advantages of a batch by their standard deviation, GRPO does not. "
        "Longer steps would win without being better, so by default every method gets GDPO's last step: steps "
        "of equal size. **Each as published** gives it to GDPO alone. **No last step for either** takes it from GDPO "
        "too, as many a demo does; then GDPO's steps are longer than GRPO's.",
        "**Thin lines** are the infinite-group limit: what ever larger groups would do.",
        f"**Lines** are medians over {count(setting.seeds, 'seed')}, **bands** hold {percent(BAND[1] - BAND[0])} of "
        f"them. Two medians count as equal if they are within {ALIKE_EPOCHS} epochs or {percent(ALIKE_SHARE)}.",
    )
    return join(*(tag("p", prose(one)) for one in sentences))
