"""What is said about GDPO and what was found, what came after it, limits and references."""

from collections.abc import Iterator
from functools import lru_cache

import marimo as mo

import gdpo_core as gc
from gdpo_core._errors import InputError
from gdpo_core._words import count, decimal, listing, percent, word
from gdpo_core.successors import SUCCESSORS
from views.html import Html, fold, framed, join, lazily, prose, show, table, tag
from views.link import Session
from views.results import ahead, results
from views.should import lead
from views.use import Lab

TRUE, PARTLY, FALSE = "true", "partly", "false"
ARXIV = "https://arxiv.org/abs/"


def claims() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """A claim, whether it holds, what was found, and where to see it: a chapter, and a scenario of Train."""
    pair = [[1, 0, 1], [0, 1, 1]]
    tied, split = ([*pair, *others] for others in ([[1, 1, 0], [0, 0, 1]], [[1, 1, 0], [1, 0, 1]]))
    ties = [gc.gdpo(group)[:2] for group in (tied, split)]
    same = [bool((a[0] - a[1]).abs() < 1e-12) for a in ties]
    yield (
        "“[1,0,1] and [0,1,1] get one advantage from GRPO and two from GDPO.”",
        PARTLY,
        "GRPO: with equal weights, always. GDPO: not if as many answers pass the first mark as pass the second, or as "
        f"fail it. In a group of {len(tied)} it {'ties' if same[0] else 'splits'} them where {_passes(tied)} pass, and "
        f"{'ties' if same[1] else 'splits'} them where {_passes(split)} do.",
        ("lab",),
    )
    yield (
        "“From p = 0.5 GRPO puts all rewards on one path, GDPO does not.”",
        FALSE,
        "With equal scales and equal starts all methods coincide. The usual demo leaves out GDPO's last step, so it "
        "takes longer steps.",
        ("train", "demo"),
    )
    yield (
        "“GDPO learns each reward on its own; GRPO cannot tell which matters.”",
        PARTLY,
        "With unequal scales GDPO's speed does not depend on the scale; GRPO's does, which may be what was meant. No "
        "method tells which reward matters; a weight or a gate has to.",
        ("train", "scales"),
    )
    weights = (2, 1, 1)
    share, naive = weights[0] ** 2 / sum(w * w for w in weights), weights[0] / sum(weights)
    yield (
        "“Every reward counts in proportion to its weight, whatever its scale.”",
        PARTLY,
        "Whatever its scale, yes, where it varies in the group. But its share of the update goes by the square of the "
        f"weight: weights {listing(weights, link='')} give {percent(share)}, not {percent(naive)}, to rewards that are "
        "not correlated.",
        ("lab",),
    )
    n = {m: gc.count_distinct(m, 4, 6) for m in ("grpo", "grpo_no_std", "gdpo")}
    yield (
        "“Leaving out the division by std is half of the cure.”",
        PARTLY,
        f"Of 4 answers with 6 marks GRPO makes {count(n['grpo'])} different lists of advantages, without std "
        f"{count(n['grpo_no_std'])}, GDPO {count(n['gdpo'])}. In the paper's tool-calling run it left no answer in the "
        "right format.",
        ("evidence",),
    )
    yield (
        "“Use GDPO when all rewards matter alike.”",
        PARTLY,
        "It makes them count alike, whether they matter or not; a reward of nearly constant noise too.",
        ("train", "noise"),
    )
    yield ("“No setting gets worse with GDPO.”", FALSE, _where_grpo_is_ahead(), ("evidence",))
    yield (
        "“One line: apply_gdpo: True.”",
        FALSE,
        "Only in the authors' fork of TRL 0.18. Released TRL has another name for it: choose TRL as the trainer.",
        (),
    )
    yield (
        "“GRPO diverges at step 400.”",
        PARTLY,
        "The paper shows it for one math run of a 1.5B model. It is no general result, and nothing here shows it.",
        (),
    )


def _where_grpo_is_ahead() -> str:
    """In how many of the paper's cells, by how much and in which experiments; or why it cannot be said."""
    try:
        cells = results()
    except InputError as error:
        return f"The numbers can't be shown. {error}"
    worse = ahead(cells)["grpo"]
    return (
        f"GRPO is ahead in {count(len(worse))} of {count(len(cells))} cells of the paper's own tables, by up to "
        f"{decimal(max(-cell.ahead for cell in worse), 1)} points, in "
        f"{listing(dict.fromkeys(cell.experiment for cell in worse))}."
    )


def _passes(group: list[list[int]]) -> str:
    first, second, _ = (sum(column) for column in zip(*group, strict=True))
    return f"{word(first)} and {word(second)}"


@lru_cache(maxsize=1)
def checked() -> Html:
    """The claims as a table."""
    rows = [
        [
            tag("span", claim),
            tag("span", verdict, kind=f"claim-{verdict}"),
            join(tag("span", reason), " ", lead(place[0], claim, *place[1:]) if place else ""),
        ]
        for claim, verdict, reason, place in claims()
    ]
    return table(["what is said", "is", "what we found"], rows, "claims")


def after(lab: Lab) -> Html:
    """The successors, with what each makes of the Lab's answers."""
    state, mixes = lab.state, len(set(lab.state.marks))
    rows = []
    for key, s in SUCCESSORS.items():
        collapsed = gc.collapse(state.rewards, key, weights=state.weights)
        kept = f"{len(set(collapsed.level.tolist()))} of {mixes}"
        paper = tag("a", s.title, href=f"{ARXIV}{s.paper}", target="_blank", rel="noreferrer")
        rows.append([join(tag("b", s.name), " ", tag("small", s.published)), paper, tag("span", s.formula), kept])
    here = ["different advantages for the Lab's mixes of marks"]
    return join(
        tag(
            "p",
            prose(
                "All are methods of gdpo_core.advantages, and of the **Lab** and of **Train**. Inside a group DVAO and "
                "CorrGRPO keep GRPO's order and change the length of the step; MO-GRPO keeps GDPO's order; GD²PO and "
                "SA-MRPO each have their own."
            ),
        ),
        table(["method", "paper", "what it computes", *here], rows, "successors"),
    )


LIMITS = (
    "No language model is trained here. Coins, and a choice of three answers, show what normalising does to a "
    "gradient, not what a model makes of it.",
    "A mark, 1 or 0, is what the paper calls a reward; there it can be any number. Of three marks with "
    "positive weights, GRPO ties different ones only where pay times weight is the same for two, or for one as much as "
    "for the other two together. Under GDPO the same holds of weight divided by spread.",
    "Shares of the update are shares of variance, not of gradients: those depend on token probabilities, clipping, a "
    "KL term and how tokens are averaged too.",
    "The released scripts of the paper differ in more than the order of normalising: GRPO carries a KL penalty inside "
    "its reward, GDPO trains without one, and only GDPO has the last step.",
    "In Train's conflict at equal pay any weight below 1 on brevity lets the right answer win. The paper found lower "
    "weights unreliable on models, a gate not.",
    "Frameworks were read and run as of August 2026; the versions stand with each convention.",
)
PAPER_LEFT_OPEN = "the ε of its last step is 0, and std divides by n − 1"  # it gives neither
REFERENCES = {
    "GDPO": ("2601.05242", "the paper, with its conditioned rewards (eq. 8) and experiments"),
    "GRPO": ("2402.03300", "DeepSeekMath"),
    "GRPO without std": ("2503.20783", "Dr. GRPO"),
}


def more(session: Session) -> mo.Html:
    """What stands below the first screen."""
    references = [
        tag(
            "li",
            tag("a", f"{name}: arXiv {number}", href=f"{ARXIV}{number}", target="_blank", rel="noreferrer"),
            f", {what}",
        )
        for name, (number, what) in REFERENCES.items()
    ]
    conventions = [
        tag("li", f"{c.name}: {c.source}{'; ' + PAPER_LEFT_OPEN if c == gc.PAPER else ''}")
        for c in gc.CONVENTIONS.values()
    ]
    return show(
        tag("h2", "What is said about GDPO, and what we found"),
        checked(),
        framed(
            "folds",
            fold(
                f"What came before and after: {listing(s.name for s in SUCCESSORS.values())}",
                lazily(lambda: after(Lab.now(session))),
            ),
            fold("Limits of this page", tag("ul", *(tag("li", x) for x in LIMITS))),
            fold(
                "References",
                tag("ul", *references),
                tag("p", "Conventions, and the code they were read from:"),
                tag("ul", *conventions),
            ),
        ),
        tag(
            "p",
            "Next: ",
            tag("a", "change the Lab", href="?at=lab", data_go="lab"),
            ", and these lines follow.",
            kind="next",
        ),
    )
