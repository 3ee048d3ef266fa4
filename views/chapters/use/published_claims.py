"""Claims about GDPO and whether they hold, the methods that came before and after it, limits, and references."""

from collections.abc import Iterator
from functools import lru_cache

import marimo as mo

import gdpo_core as gc
from gdpo_audit import report
from gdpo_core.board.state import State
from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.shared.words import count, listing, percent, word
from gdpo_core.successors import SUCCESSORS
from views.chapters.evidence import experiment
from views.chapters.evidence.trained import LEAST, WITHOUT_STD, count_leads, load_differences, of_gdpo, parted
from views.chapters.use import configure
from views.chapters.use.which import share_of_broken_ties_that_are_wrong
from views.studies.references import BFCL, REPO
from views.studies.results import ahead, clear, results
from views.studies.scenarios import VERDICTS, load_scenarios
from views.widgets.html import ROOT, Html, element, join, points, prose, show, table, tag
from views.widgets.onward import onward

TRUE, PARTLY, FALSE = "true", "partly", "false"
_TELLS = "ties them", "tells them apart"


def claims() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield a tuple per claim: the claim, whether it holds (TRUE, PARTLY or FALSE), what shows that, and a place where
    a reader can see it.

    The place is a tuple too: (chapter,), or ("train", id of a scenario), or () for no place.
    """
    pair = [[1, 0, 1], [0, 1, 1]]
    tied, split = ([*pair, *further] for further in ([[1, 1, 0], [0, 0, 1]], [[1, 1, 0], [1, 0, 1]]))
    ties = [gc.gdpo(group)[:2] for group in (tied, split)]
    same = [bool((a[0] - a[1]).abs() < 1e-12) for a in ties]
    yield (
        "“[1,0,1] and [0,1,1] get one advantage from GRPO and two from GDPO.”",
        PARTLY,
        "With equal weights GRPO always gives these two answers the same advantage. GDPO does so too if the first two "
        "marks, in which the answers differ, have the same std. This is the case if equally many answers pass the two "
        f"marks, or if the number that pass one mark equals the number that fail the other. In a group of {len(tied)}, "
        f"GDPO {_TELLS[not same[0]]} if {_passes(tied)}, and {_TELLS[not same[1]]} if {_passes(split)}.",
        ("lab",),
    )
    yield (
        "“From p = 0.5 GRPO puts all rewards on one path, GDPO does not.”",
        FALSE,
        "With equal scales and equal starts, all rewards follow the same curve under GDPO too, and with "
        "steps of equal size this curve is the same under every method. The usual demo shows a difference only because "
        "it leaves out GDPO's batch step, which makes GDPO's steps longer.",
        ("train", "demo"),
    )
    yield (
        "“GDPO learns each reward on its own; GRPO cannot tell which matters.”",
        PARTLY,
        "With unequal scales GDPO's speed does not depend on the scale; GRPO's does, which may be what was meant. No "
        "method knows which reward matters; a weight or a gate has to say it.",
        ("train", "scales"),
    )
    weights = (2, 1, 1)
    share, naive = weights[0] ** 2 / sum(w * w for w in weights), weights[0] / sum(weights)
    yield (
        "“Every reward counts in proportion to its weight, whatever its scale.”",
        PARTLY,
        "It is true that the scale does not matter under GDPO, as long as the reward varies in the group. But "
        "the share of a reward in the update is proportional to the square of its weight: of "
        f"{word(len(weights))} rewards that are not correlated and weigh {listing(weights)}, the first has a "
        f"share of {percent(share)}, not {percent(naive)}.",
        ("lab",),
    )
    answers, marks = 4, 6
    n = {m: gc.count_distinct(m, answers, marks) for m in ("grpo", "grpo_no_std", "gdpo")}
    trained = [row for row in load_differences() if row.method == WITHOUT_STD]
    leads, trails, _ = count_leads(trained)
    yield (
        "“Leaving out the division by std is half of the cure.”",
        PARTLY,
        f"Over all possible groups of {answers} answers with {marks} marks, GRPO yields {count(n['grpo'])} different "
        f"sets of advantages, GRPO without std {count(n['grpo_no_std'])}, and GDPO {count(n['gdpo'])} before its batch "
        f"step. Trained on a small model, GRPO without std leads GRPO in {leads or 'none'} of {len(trained)} "
        f"comparisons and trails it in {trails}. In the paper's tool-calling run it ended with no answer in the right "
        "format.",
        ("evidence",),
    )
    alike = count_leads(parted(of_gdpo(load_differences()))[1])
    yield (
        "“Use GDPO when all rewards matter alike.”",
        PARTLY,
        "At equal weights GDPO makes uncorrelated rewards count alike, whatever they pay and whether or not they "
        "matter. So the advice is wrong if one of them is nearly constant and varies only by noise. And where all of "
        "them pay alike, GRPO counts them about alike too: trained on such rewards, GDPO leads in "
        f"{alike[0] or 'none'} of {sum(alike)} comparisons and trails in {alike[1]}.",
        ("evidence",),
    )
    yield ("“No setting gets worse with GDPO.”", FALSE, _where_gdpo_is_behind(), ("evidence",))
    yield ("“Nearly 5 % more accuracy.” “About 2.7 %.”", PARTLY, _more_accuracy(), ("evidence",))
    yield (
        "“One line: apply_gdpo: True.”",
        FALSE,
        f"This option exists only in the authors' fork of TRL 0.18. In released TRL the option is "
        f"{configure.ONE_LINE['trl']}.",
        (),
    )


def _where_gdpo_is_behind() -> str:
    """Return sentences on where GDPO is behind: on coins, a small model, broken ties, and in the paper's own tables."""
    coins = [s for s in load_scenarios(ROOT / "data" / "scenarios.json") if not s.setup.arms]
    verdicts = [s.verdict for s in coins if s.setup.comparison == "equal"]
    trained = of_gdpo(load_differences())
    _, trails, _ = count_leads(trained)
    wrong = share_of_broken_ties_that_are_wrong()
    cells = results()
    by_winner = ahead(cells)
    gdpo, grpo = clear(by_winner["gdpo"]), clear(by_winner["grpo"])
    return (
        f"Here GDPO is slower in {verdicts.count(VERDICTS[2])} of {len(verdicts)} set-ups of coins. Of "
        f"{len(trained)} comparisons in which small language models were trained under both methods, it trails in "
        f"{trails}: by {count(round(LEAST), 'point')} or more, with an interval of the difference that leaves out 0. "
        "Of the ties of a right and a wrong answer that GDPO "
        f"breaks in Evidence, {percent(wrong)} end in the wrong order. In the paper's own tables GDPO is ahead by "
        f"at least one point in {count(gdpo)} of {count(len(cells))} cells, GRPO in {grpo}; for most cells the "
        "paper does not say how much its runs vary."
    )


def _more_accuracy() -> str:
    """Return sentences on GDPO's lead over GRPO in accuracy in the paper's table of tool calling with a 1.5B model."""
    tools = (cell for cell in results() if cell.experiment == "tool calling" and "1.5B" in cell.model)
    cells = [cell for cell in tools if cell.metric == "accuracy"]
    each = listing(f"{cell.ahead:.2f} on {cell.benchmark.removeprefix('BFCL-v3 ')}" for cell in cells)
    mean = sum(cell.ahead for cell in cells) / len(cells)
    return (
        "Both numbers come from one table, of tool calling with a 1.5B model, and they are points, not percent. GDPO "
        f"is ahead by {each} prompts; the mean of these is {mean:.2f}."
    )


def _passes(group: list[list[int]]) -> str:
    """Return words on how many answers of a group pass the first of three marks, and how many pass the second.

    group: (answers, 3) marks of 0 or 1.
    """
    first, second, _ = (sum(column) for column in zip(*group, strict=True))
    if first == second:
        return f"each of the two marks is passed by {word(first)} answers"
    return f"the first mark is passed by {word(first)} answers and the second by {word(second)}"


@lru_cache(maxsize=1)
def claims_table() -> Html:
    """Return a table of the claims, with whether each of them holds and what we found."""
    rows = [
        [
            tag("span", claim),
            tag("span", verdict, kind=f"claim-{verdict}"),
            join(tag("span", reason), " ", onward(place[0], claim, *place[1:]) if place else ""),
        ]
        for claim, verdict, reason, place in claims()
    ]
    return table(["what is said", "is", "what we found"], rows, "claims")


def successors_table(lab: State) -> Html:
    """Return a table of the methods before and after GDPO, with how many different advantages each gives the Lab's
    answers.
    """
    mixes = len(set(lab.marks))
    rows = []
    for key, s in SUCCESSORS.items():
        collapsed = gc.collapse(lab.rewards, key, weights=lab.weights)
        kept = f"{len(set(collapsed.level.tolist()))} of {mixes}"
        name = join(tag("b", s.name), " ", tag("small", s.published))
        rows.append([name, _paper(s.paper, s.title), tag("span", s.formula), kept])
    here = ["different advantages for the Lab's kinds of answers"]
    return join(
        tag(
            "p",
            prose(
                "The function gdpo_core.advantages computes all of these methods. All but PAPO, whose first reward has "
                "a part of its own, are also in the **Lab** and in **Train**. The weights w_k in the formulas are "
                "ours where the papers (of MO-GRPO and CorrGRPO) or the code (of SAW) have none."
            ),
        ),
        table(["method", "paper", "what it computes", *here], rows, "successors"),
    )


_LIMITS = (
    "For this page we trained only small language models: for example the one in Evidence, with "
    f"{experiment.PARAMETERS:,} parameters, and the one in Your run that does sums. No model that people use is so "
    "small. Train's policies are coins or, where rewards conflict, a choice among a few answers. They show what "
    "normalising does to a gradient, not what a model makes of it.",
    "A mark is 1 or 0, and the reward for passing it is what it pays; in the paper a reward can be any number. "
    "The value of a mark is its pay times its weight. With three marks and positive weights, GRPO can tie "
    "answers with different marks only if two marks have the same value, or if the value of one mark is the "
    "sum of the values of the other two. The same rule holds for GDPO, but there the value of a mark is its "
    "weight divided by its std in the group. This std is that of the zeros and ones, not of what they pay, "
    "because the pay does not matter under GDPO.",
    "Shares of the update are shares of variance, not of gradients: a gradient also depends on token "
    "probabilities, clipping, a KL term and how tokens are averaged.",
    "In Train's conflict at equal pay any weight below 1 on conciseness lets the right answer win. On language "
    "models the paper found that a lower weight is unreliable and that a gate works.",
    f"The trainers' code was read on different days, most recently on "
    f"{max(trainer.read_on for trainer in FRAMEWORKS.values())}; each trainer's record says what was read and when.",
)
REFERENCES = {
    "GDPO": (
        "2601.05242",
        "Group reward-Decoupled Normalization Policy Optimization for Multi-reward RL Optimization",
        "the paper, ICML 2026 (PMLR v306), with its conditioned rewards (eq. 8) and experiments",
    ),
    "GRPO": (
        "2402.03300",
        "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
        "which introduces Group Relative Policy Optimization",
    ),
    "GRPO without std": (
        "2503.20783",
        "Understanding R1-Zero-Like Training: A Critical Perspective",
        "which calls it Dr. GRPO",
    ),
}
CLAIMS_OPENING = f"""# A few lines switch GDPO on. Your rewards say if you should.

[Paper: arXiv {REFERENCES["GDPO"][0]}](https://arxiv.org/abs/{REFERENCES["GDPO"][0]}) · [Code: NVlabs/GDPO]({REPO}) · \
[Data: BFCL]({BFCL}) · [References](?at=use#references) · Every advantage that this page computes comes \
from one torch library, gdpo_core."""
CITE = """@inproceedings{liu26aa,
  title={GDPO: Group reward-Decoupled Normalization Policy Optimization for Multi-reward RL Optimization},
  author={Liu, Shih-Yang and Dong, Xin and Lu, Ximing and Diao, Shizhe and Belcak, Peter and Liu, Mingjie and \
Chen, Min-Hung and Yin, Hongxu and Wang, Yu-Chiang Frank and Cheng, Kwang-Ting and Choi, Yejin and Kautz, Jan and \
Molchanov, Pavlo},
  booktitle={Proceedings of the 43rd International Conference on Machine Learning},
  series={Proceedings of Machine Learning Research},
  volume={306},
  publisher={PMLR},
  year={2026},
  note={arXiv:2601.05242}
}"""


def references() -> Html:
    """Return a list of the papers on GRPO and GDPO with the authors' code, and how to cite the GDPO paper."""
    papers = (
        tag("li", tag("b", name), ": ", _paper(number, title), f" (arXiv {number}), {what}")
        for name, (number, title, what) in REFERENCES.items()
    )
    return join(
        tag("ul", *papers, tag("li", tag("b", "The authors' code"), ": ", _link(REPO, REPO.removeprefix("https://")))),
        tag("p", "To cite the paper:"),
        report.copy_box(CITE, "the paper as BibTeX"),
    )


def _paper(number: str, title: str) -> Html:
    """Return a link to a paper by its number at arXiv."""
    return _link(f"https://arxiv.org/abs/{number}", title)


def _link(href: str, title: str) -> Html:
    """Return a link that opens in a new tab.

    title: the text of the link.
    """
    return tag("a", title, href=href, target="_blank", rel="noreferrer")


def claim_folds(lab: State) -> mo.Html:
    """Return the folds at the end of the chapter: claims about GDPO, other methods, what trainers do, limits, and
    references. The fold of claims is open at first, and a link to the Lab stands below the folds.

    lab: the state of the Lab's board, to whose answers the other methods are applied.
    """
    by_title = {
        "What is said about GDPO, and what we found": claims_table(),
        f"What came before and after: {listing(s.name for s in SUCCESSORS.values())}": lambda: successors_table(lab),
        "What each trainer does in each case, and which trainers have no GDPO": configure.all_cases,
        # The content of a fold stands in a shadow root, so that it brings the style of a report along.
        "Limits of this page": join(report.REPORT_STYLE, tag("div", points(_LIMITS), kind="audit")),
    }
    cited = {
        "References": mo.lazy(lambda: show(report.REPORT_STYLE, tag("div", references(), kind="audit references")))
    }
    drawn = {
        title: mo.lazy(lambda content=content: show(content())) if callable(content) else show(content)
        for title, content in by_title.items()
    }
    then = tag(
        "p",
        "Next: ",
        tag("a", "change the pay or the weights in the Lab", href="?at=lab"),
        ", and the configuration lines in this chapter change with them.",
        kind="next",
    )
    # In an element of its own, so that a link can lead to it.
    last = tag("div", element(mo.accordion(cited)), id="references")
    return show(mo.accordion(drawn, multiple=True, expanded=[next(iter(drawn))]), last, then)
