"""Where each finding is explained: in the page or docs/audit.md, in the paper, in the framework's documentation."""

from dataclasses import dataclass

from gdpo_core.frameworks import FRAMEWORKS

PAPER = "https://arxiv.org/abs/2601.05242"


@dataclass(frozen=True)
class ReadMore:
    """place: a chapter of the page or a section of docs/audit.md; paper: what of the paper; terms: of the glossary.

    scenario: of the chapter Train, that shows what the finding says.
    """

    place: str
    paper: str = ""
    terms: tuple[str, ...] = ()
    scenario: str = ""


@dataclass(frozen=True)
class Link:
    """A page elsewhere that explains a finding."""

    title: str
    url: str


_SCALE, _PRIORITY, _LEVELS = "page, chapter Train", "page, chapter Evidence", "page, chapter Lab"
_USE, _LOG, _LIMITS = "page, chapter Use it", "docs/audit.md, Reading a log", "docs/audit.md, Limits"
_FORMULAS = "equations 4 to 7"
READ_MORE = {  # by the finding's id
    "reward-dominates": ReadMore(_SCALE, _FORMULAS, ("update share", "scale", "weight"), "scales"),
    "reward-starved": ReadMore(_SCALE, _FORMULAS, ("update share", "scale", "weight")),
    "reward-dead": ReadMore(_SCALE, "", ("zero-variance group",), "live"),
    "reward-dead-in-part": ReadMore(_LOG, "", ("zero-variance group",)),
    "reward-fades": ReadMore(_SCALE, "", ("zero-variance group", "update share")),
    "reward-noise": ReadMore(_SCALE, _FORMULAS, ("normalise", "eps"), "noise"),
    "conflict": ReadMore(_SCALE, scenario="conflict"),
    "length-coupled": ReadMore(_USE, "equation 8"),
    "ties-hide-signal": ReadMore(_LEVELS, "section 3.1 and Fig. 2", ("tie", "level")),
    "silent-groups": ReadMore(_LEVELS, "", ("silent group",)),
    "filter-drops-signal": ReadMore(_LEVELS, "", ("silent group", "zero-variance group")),
    "blind-zero-std-metric": ReadMore(_LEVELS, "", ("zero-variance group",)),
    "batch-step-amplifies": ReadMore(_LEVELS, _FORMULAS, ("batch step", "silent group")),
    "priority-inversion": ReadMore(_PRIORITY, "equation 8", ("inversion",)),
    "method-not-as-asked": ReadMore(_USE, _FORMULAS, ("convention",)),
    "weights-not-as-given": ReadMore(_USE, _FORMULAS, ("weight",)),
    "weight-zero": ReadMore(_LOG, "", ("weight",)),
    "missing-rewards": ReadMore(_LOG),
    "steps-missing": ReadMore(_LOG),
    "steps-repeated": ReadMore(_LOG),
    "files-left-out": ReadMore(_LOG),
    "eval-logged": ReadMore(_LIMITS),
    "eval-overwrote": ReadMore(_LIMITS),
    "rows-missing": ReadMore(_LOG, "", ("batch step",)),
    "reward-columns-merged": ReadMore(_LOG),
    "rewards-collinear": ReadMore(_LOG, "", ("weight",)),
    "prompts-merged": ReadMore(_LOG, "", ("group",)),
    "group-size-changes": ReadMore(_LOG, "", ("group",)),
    "ragged-batches": ReadMore(_LOG, "", ("batch",)),
    "groups-sampled": ReadMore(_LOG, "", ("group",)),
    "score-not-a-sum": ReadMore(_LOG),
    "not-in-score": ReadMore(_LOG),
    "no-components": ReadMore(_LIMITS),
    "advantages-not-reproduced": ReadMore(_LOG, "", ("convention",)),
}
IDS = tuple(sorted(READ_MORE))


def links(finding: str, framework: str, fixed: bool) -> tuple[Link, ...]:
    """The pages elsewhere about a finding; fixed: whether lines of the framework's configuration change it.

    >>> [link.title for link in links("ties-hide-signal", "trl", True)]
    ['the GDPO paper, section 3.1 and Fig. 2', 'the documentation of TRL']
    """
    found = []
    if finding in READ_MORE and READ_MORE[finding].paper:
        found.append(Link(f"the GDPO paper, {READ_MORE[finding].paper}", PAPER))
    of = FRAMEWORKS[framework]
    if fixed and of.documentation:
        found.append(Link(f"the documentation of {of.title}", of.documentation))
    return tuple(found)
