"""Section 7: two rewards in conflict, weighed or gated, in a toy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from torch import Tensor

import gdpo_core as gc
from gdpo_core._theme import LIMIT
from gdpo_core._words import listing, percent, word
from views import html
from views.html import Cell, Html, Row, bold, fold, join, methods, says, small, table, thin
from views.once import Once
from views.text import BAND, NAMES, each_method

ANSWERS = ("right but long", "wrong but short", "wrong and long")
REST = 0.05  # probability of the last one at the start
WEIGHTS = {"1": 1.0, "0.9": 0.9, "1/2": 0.5, "1/4": 0.25, "1/8": 0.125, "1/16": 0.0625}  # of brevity
STARTS = {"0.10": 0.1, "0.05": 0.05, "0.02": 0.02, "0.60": 0.6}  # of the right answer
PAYS = {"1, as much as being right": 1.0, "3, three times as much": 3.0}
EPOCHS, PROMPTS, ROLLOUTS, SEEDS = 300, 32, 8, 16
WON = 0.9  # an answer that is given at least this often
IN_THE_TABLE = (0, 5, 10, 20, 40, 80, 150, 300)  # epochs

_runs, _limits = Once(maxsize=64), Once(maxsize=64)  # 0.2 MB per entry


@dataclass(frozen=True)
class Toy:
    """One setting of the toy."""

    start: float = 0.1  # probability of the right answer
    weight: float = 1.0  # of brevity; correctness weighs 1
    pays: float = 1.0  # what a short answer is paid; a right one is paid 1
    gated: bool = False  # whether brevity counts only for right answers

    @property
    def p0(self) -> tuple[float, ...]:
        return (self.start, 1 - REST - self.start, REST)

    @property
    def rewards(self) -> tuple[tuple[float, float], ...]:
        """(correctness, brevity) of each answer."""
        return ((1.0, 0.0), (0.0, self.pays), (0.0, 0.0))

    def settings(self) -> dict:
        """What both kinds of run take."""
        return {
            "weights": (1.0, self.weight),
            "epochs": EPOCHS,
            "gate": (1, 0) if self.gated else None,
        }

    def least(self) -> "Toy":
        """The setting that is run: behind the gate nothing is short and right, so the rest changes nothing."""
        return Toy(self.start, gated=True) if self.gated else self


def runs(toy: Toy) -> dict[str, gc.TrainingRun]:
    """All methods from the same start with the same seeds; equal requests of several visitors are computed once."""
    toy = toy.least()
    sizes = {"prompts": PROMPTS, "rollouts": ROLLOUTS, "seeds": SEEDS}

    def compute() -> dict[str, gc.TrainingRun]:
        return {m: gc.train_arms(m, toy.p0, toy.rewards, **toy.settings(), **sizes) for m in NAMES}

    return _runs.get(toy, compute)


def large(toy: Toy) -> dict[str, Tensor]:
    """The curves of the infinite-group limit."""
    toy = toy.least()

    def compute() -> dict[str, Tensor]:
        return {m: gc.mean_field_arms(m, toy.p0, toy.rewards, **toy.settings()) for m in NAMES}

    return _limits.get(toy, compute)


@dataclass(frozen=True)
class End:
    """Where one method's runs end."""

    p: tuple[float, ...]  # per answer, median over seeds of its last probability
    epochs: float  # median epoch at which the right answer is given WON of the time; infinity for never

    @property
    def winner(self) -> int | None:
        """The answer that is given nearly always, if there is one."""
        return self.likeliest if max(self.p) >= WON else None

    @property
    def likeliest(self) -> int:
        return self.p.index(max(self.p))


@lru_cache(maxsize=256)
def ends(toy: Toy) -> dict[str, End]:
    """Where each method ends."""
    found = {}
    for method, run in runs(toy).items():
        steps = run.steps_to(WON)[:, 0].sort().values
        middle = steps[(len(steps) - 1) // 2].item()
        found[method] = End(tuple(run.p[:, -1].quantile(0.5, dim=0).tolist()), middle)
    return found


def probability(p: float) -> str:
    """Three decimals that never say always or never.

    >>> probability(0.98765), probability(0.99992), probability(0.0001)
    ('0.988', 'over 0.999', 'under 0.001')
    """
    if p > 0.9995 or p < 0.0005:
        return "over 0.999" if p > 0.5 else "under 0.001"
    return f"{p:.3f}"


def introduction() -> str:
    """Markdown: what the conflict is."""
    rows = zip(ANSWERS, Toy().rewards, strict=True)
    paid = "; ".join(f"*{answer}*: {right:g} and {short:g}" for answer, (right, short) in rows)
    return (
        "Rewards can pull apart. Being short is easy to learn, being right is hard, and a policy that is paid for both "
        f"may settle for short. The smallest case has {word(len(ANSWERS))} answers, each paid for being right and for "
        f"being short, at first {paid}. The policy is a softmax over the {word(len(ANSWERS))}. Unless you choose "
        "otherwise it mostly answers wrong but short at the start. "
        "Two remedies are common: give the easy reward a smaller **weight**, or put it behind a **gate**, so that "
        "brevity counts only where the answer is right (the paper's eq. 8, *conditioned rewards*).\n\n"
        f"Each run takes {EPOCHS} epochs of {PROMPTS} prompts with {ROLLOUTS} answers each, and advantages are brought "
        f"to a standard deviation of 1 as above. Lines are medians over {SEEDS} seeds, bands hold "
        f"{percent(BAND[1] - BAND[0])} of them."
    )


def shown(toy: Toy) -> Html:
    """HTML of the runs of this setting: verdict, curves, and the same as a table."""
    return join(verdict(toy), legend(), html.charts(charts(toy)), curves_table(toy))


def verdict(toy: Toy) -> Html:
    """HTML of what the runs show, and why."""
    found = ends(toy)
    winners = {end.winner for end in found.values()}
    if len(winners) == 1 and None not in winners:
        (winner,) = winners
        told = (
            f"**Every method ends {ANSWERS[winner]}**: after {EPOCHS} epochs that answer has a probability of "
            f"{each_method(lambda m: probability(found[m].p[winner]))}."
        )
    else:
        told = f"**{_apart(found)}**: after {EPOCHS} epochs {each_method(lambda m: _ending(found[m]))}."
    if any(end.epochs < inf for end in found.values()):
        told += f" Epochs until the right answer reaches {WON:g}: {each_method(lambda m: _epochs(found[m]))}."
    return says(told, _why(toy), _large_groups(toy, found))


def _apart(found: Mapping[str, End]) -> str:
    likeliest = {end.likeliest for end in found.values()}
    if len(likeliest) > 1:
        return "The methods do not end alike"
    return f"Every method leans to {ANSWERS[likeliest.pop()]}, but not every one settles"


def _ending(end: End) -> str:
    return f"{ANSWERS[end.likeliest]} ({probability(end.p[end.likeliest])})"


def _epochs(end: End) -> str:
    return f"not in {EPOCHS}" if end.epochs == inf else f"{end.epochs:g}"


def _why(toy: Toy) -> str:
    if toy.gated:
        return (
            "No answer here is both right and short, so behind the gate none is ever paid for being short: the weight "
            "and the pay of brevity change nothing. Real answers can be both; see below."
        )
    paid = toy.weight * toy.pays
    told = f"In the sum a right answer is paid 1 and a short wrong one {paid:g}"
    if paid == 1:
        told += (
            ", so nothing prefers the right one: the answer that is likelier at the start gains "
            f"({max(toy.p0):g} against {min(toy.p0[:2]):g})"
        )
    elif paid < 1:
        told += ", so the right one is worth more"
    else:
        told += ", so the wrong one is worth more"
    if toy.pays != 1:
        told += f". GDPO divides the {toy.pays:g} out again: only the weight counts there, {toy.weight:g} against 1"
    return f"{told}."


def _large_groups(toy: Toy, found: Mapping[str, End]) -> str:
    """The gap between the runs and the infinite-group limit, where it is large."""
    limit = {m: p[-1].tolist() for m, p in large(toy).items()}
    gap = {m: max(abs(a - b) for a, b in zip(limit[m], found[m].p, strict=True)) for m in NAMES}
    far = max(gap, key=gap.__getitem__)
    if gap[far] < 0.05:
        return ""
    told = (
        f"In the infinite-group limit, training would leave {NAMES[far]} at {limit[far][0]:.2f} right and "
        f"{limit[far][1]:.2f} short (thin line)"
    )
    if far == "gdpo" and toy.weight == 1:
        told += (
            ", because the two normalised rewards cancel exactly in any group without a wrong and long answer. With "
            f"{ROLLOUTS} answers per group, the few that hold one still move it, and the last step scales them up"
        )
    return f"{told}."


def charts(toy: Toy) -> list:
    """A chart per answer."""
    from views.charts import arms  # here, because Altair is half of what the first visitor would wait for

    return arms(runs(toy), large(toy), ANSWERS)


def curves_table(toy: Toy) -> Html:
    """The curves as HTML, folded."""
    limit = large(toy)
    median = {m: run.p.quantile(0.5, dim=0) for m, run in runs(toy).items()}

    def cell(method: str, epoch: int, answer: int) -> Html:
        return join(probability(median[method][epoch, answer]), small(probability(limit[method][epoch, answer])))

    rows = [[epoch, *(cell(m, epoch, n) for m in NAMES for n in range(len(ANSWERS)))] for epoch in IN_THE_TABLE]
    shown = table(
        ["epoch", *ANSWERS * len(NAMES)],
        rows,
        "figures ends",
        f"Median over {SEEDS} seeds; below it the infinite-group limit",
        over=dict.fromkeys(NAMES.values(), len(ANSWERS)),
    )
    return fold("The curves as a table", shown)


def legend() -> Html:
    """HTML legend: the methods, and what the thin lines are."""
    return html.legend([*methods(NAMES), thin(LIMIT, "infinite-group limit")])


def enough(start: float, pays: float) -> dict[str, str | None]:
    """Per method, the largest weight from which on, down the list, the right answer wins without the gate."""
    found = {}
    for method in NAMES:
        right = [name for name, w in WEIGHTS.items() if ends(Toy(start, w, pays))[method].winner == 0]
        kept = list(WEIGHTS)[len(WEIGHTS) - len(right) :]
        found[method] = right[0] if right and right == kept else None
    return found


def weights_table(start: float, pays: float) -> Html:
    """HTML of where every weight ends, with and without the gate."""
    toys = {f"weight {name}": Toy(start, w, pays) for name, w in WEIGHTS.items()}
    toys["gated, any weight"] = Toy(start, 1.0, pays, gated=True)
    rows = [
        Row([name, *(Cell(_end(end), f"{m} {_kind(end)}") for m, end in ends(toy).items())], "gated" * toy.gated)
        for name, toy in toys.items()
    ]
    head = ["", *(Cell(name, m) for m, name in NAMES.items())]
    caption = (
        f"Probability of the right answer after {EPOCHS} epochs, median over {SEEDS} seeds. Below: epochs until it "
        f"reaches {WON:g}."
    )
    return join(says(*_lesson(start, pays)), table(head, rows, "ends", caption))


def _kind(end: End) -> str:
    return {0: "right", 1: "wrong"}.get(end.winner, "open")


def _end(end: End) -> Html:
    said = ANSWERS[end.winner] if end.winner is not None else "not settled"
    after = f"{end.epochs:g} epochs" if end.epochs < inf else f"not in {EPOCHS}"
    return join(bold(probability(end.p[0])), small(said), small(after))


def _lesson(start: float, pays: float) -> list[str]:
    weight, gated = enough(start, pays), ends(Toy(start, gated=True))
    equal = ends(Toy(start, 1.0, pays))
    failed = [NAMES[m] for m, end in equal.items() if end.winner != 0]
    told = ""
    if failed:
        every = "every method" if len(failed) == len(NAMES) else listing(failed)
        told += f"At equal weights {every} {'fails' if len(failed) != 2 else 'fail'} to settle on the right answer. "
    needed = each_method(lambda m: "none of these" if weight[m] is None else weight[m])
    told += f"The largest weight in the table that makes it win: {needed}. "
    if all(end.winner == 0 for end in gated.values()):
        told += "**Behind the gate it wins under every method, at any weight.**"
    return [
        f"{told}{_speeds(start, pays)}",
        "So the order in which you normalise does not set the priority. A small enough weight does, but it has to be "
        "found. How small depends on the order: GRPO's moves with what the easy reward pays, GDPO's does not (choose "
        "another pay above). The gate needs no number to put right before wrong.",
    ]


def _speeds(start: float, pays: float) -> str:
    """Where the methods' speeds differ most, if they all get there without the gate."""
    epochs = {name: [e.epochs for e in ends(Toy(start, w, pays)).values()] for name, w in WEIGHTS.items()}
    ratio = {name: max(each) / min(each) for name, each in epochs.items() if max(each) < inf}
    most = max(ratio, key=ratio.__getitem__, default=None)
    if most is None or ratio[most] < 1.5:
        return ""
    found = ends(Toy(start, WEIGHTS[most], pays))
    return (
        " The speed can differ where the weight is only just small enough: at "
        f"{most} the epochs are {each_method(lambda m: _epochs(found[m]))}."
    )
