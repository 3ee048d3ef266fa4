"""What a report says beside its findings, in words: the same for the terminal and for HTML."""

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Integral, Real

from gdpo_core.audit import AuditReport
from gdpo_core.conventions import CONVENTIONS
from gdpo_core.findings import NAMES, SEVERITIES, facts
from gdpo_core.rules import exceptions, formulas

FRAMEWORKS = {
    "trl": "TRL or axolotl",
    "verl": "verl",
    "ms_swift": "ms-swift",
    "nemo_rl": "NeMo-RL",
    "generic": "a table of another kind",
}
_SHOWN = 12  # items of a list

_WEIGHTS = {
    "given": "as given",
    "solved": "solved from the advantages",
    "score": "from the logged score",
    "config": "from args.json",
    "assumed": "assumed",
}


def plain(text: object) -> str:
    """Text of a log with what steers a terminal, or is no character of HTML, made visible; lines stay lines.

    >>> plain("naïve\\x1b[2J")
    'naïve\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in str(text))


def percent(share: float | None) -> str:
    """A share in percent, as the findings write it; a dash for none.

    >>> percent(0.305), percent(-0.07), percent(0.0004), percent(None)
    ('30 %', '−7 %', 'under 0.1 %', '–')
    """
    return "–" if share is None else facts.percent(share)


def number(x: float | None) -> str:
    """A number with four digits, a count whole.

    >>> number(0.123456), number(12345), number(2.0), number(None), number(1.2e-06)
    ('0.1235', '12,345', '2', '–', '1.2e-06')
    """
    if x is None or (isinstance(x, Real) and not isfinite(x)):
        return "–"
    return f"{x:,}" if isinstance(x, Integral) else f"{x:.4g}"


def value(x: object) -> str:
    """A piece of evidence, short.

    >>> value([1, 0.333333]), value({"a": None}), value(True), value([])
    ('1, 0.3333', 'a –', 'yes', 'none')
    """
    if isinstance(x, bool):
        return "yes" if x else "no"
    if x is None or isinstance(x, Real):
        return number(x)
    if isinstance(x, Mapping):
        x = [f"{plain(key)} {value(inner)}" for key, inner in x.items()]
    elif isinstance(x, Sequence) and not isinstance(x, str):
        x = [value(inner) for inner in x]
    else:
        return plain(x)
    more = [f"{len(x) - _SHOWN:,} more"] if len(x) > _SHOWN else []
    return ", ".join([*x[:_SHOWN], *more]) or "none"


def label(key: str) -> str:
    """The name of a piece of evidence as words.

    >>> label("update_share")
    'update share'
    """
    return plain(key).replace("_", " ")


def source(report: AuditReport) -> dict[str, str]:
    """Where the numbers come from."""
    s = report.source
    size = f" of {s['group_size']}" if s["group_size"] else ", of different sizes"
    counts = ", ".join(many(s[key], key) for key in ("files", "steps", "responses"))
    skipped = f", {many(s['skipped_lines'], 'broken lines')} left out" if s["skipped_lines"] else ""
    said = {
        "log": plain(s["path"]),
        "written by": FRAMEWORKS.get(s["framework"], plain(s["framework"])),
        "holds": f"{counts}{skipped}",
        "groups": f"{number(s['groups'])}{size}, told by {plain(s['grouped_by'])}",
    }
    return said | ({"not read": value(s["left_out"])} if s["left_out"] else {})


def many(n: int, things: str) -> str:
    """A count of things.

    >>> many(1, "steps"), many(1280, "responses")
    ('1 step', '1,280 responses')
    """
    return f"{number(n)} {things.removesuffix('s') if n == 1 else things}"


def did(report: AuditReport) -> dict[str, str]:
    """What the run did with its rewards, as far as the log tells."""
    run = report.run
    said = {"method": _method(report)}
    if run["convention"]:
        convention = CONVENTIONS[run["convention"]]
        said["convention"] = f"{convention.name} ({convention.source})"
    if run["weights"]:
        told = {name: "not told by the log" if w is None else number(w) for name, w in run["weights"].items()}
        factor = "; up to a common factor" if run["weights_up_to_scale"] else ""
        said["weights"] = ", ".join(f"{plain(name)} {w}" for name, w in told.items()) + factor
    said["reproduced"] = _reproduced(report)
    if run["weights"] is None or run["weights"] != run["weights_used"]:
        used = ", ".join(f"{plain(name)} {number(w)}" for name, w in run["weights_used"].items())
        said["weights used here"] = f"{used} ({_WEIGHTS[run['weights_from']]})"
    if run["asked"]:
        said["asked for"] = NAMES.get(run["asked"], plain(run["asked"]))
    return said


def _method(report: AuditReport) -> str:
    run = report.run
    if run["method"]:
        return NAMES[run["method"]]
    if run["reproduced"] is None:
        return f"not known: {_no_advantages(report)}"
    return "none that is known here"


def _no_advantages(report: AuditReport) -> str:
    """Why the methods cannot be held against the log."""
    return "every method gives 0 here" if report.run["logged"] else "no advantages are logged"


def _reproduced(report: AuditReport) -> str:
    run = report.run
    if run["reproduced"] is None:
        return f"nothing to compare with: {_no_advantages(report)}"
    error = run["max_error"]
    if run["reproduced"]:
        return f"yes, every logged advantage; largest difference {error:.1e}"
    at = f" at step{'s' * (len(run['steps_off']) > 1)} {value(run['steps_off'])}" if run["steps_off"] else ""
    off = f", off by up to {error:.2g}" if error is not None and isfinite(error) else ""
    return f"not all{at}{off}" if run["method"] else "no"


def acting(report: AuditReport) -> str | None:
    """The method that made the advantages, if it is one of those that the report compares."""
    return report.run["method"] if report.run["method"] in report.methods else None


def looked_at(report: AuditReport) -> tuple[str | None, str]:
    """The method whose update is shown, and why: the run's own, else the one asked for, else the first."""
    if own := acting(report):
        return own, "the run’s method"
    if report.run["asked"] in report.methods:
        return report.run["asked"], "which was asked for; the log does not show the method"
    return next(iter(report.methods), None), "taken, as the run’s method is not known"


def weight_shares(report: AuditReport) -> dict[str, float | None]:
    """Each reward's part of the sum of the weights that the report was computed with; None where all are 0."""
    used = report.run["weights_used"]
    total = sum(map(abs, used.values()))
    return {name: abs(w) / total if total else None for name, w in used.items()}


def computed(report: AuditReport) -> tuple[str, ...]:
    """The formulas of the run's own method, or of GDPO where it is not known."""
    method, convention = report.run["method"] or "gdpo", CONVENTIONS[report.run["convention_used"]]
    if method == "grpo_batch_std":
        divisor = f"(std + {convention.sum_eps:g})" if convention.sum_eps else "std"
        lines = "s = Σ w·r", f"A = (s − mean) / {divisor}, mean in its group, std over all responses of the batch"
    else:
        lines = formulas(method, convention, len(report.rewards))
    return (*lines, *exceptions(convention))


def limits(report: AuditReport) -> tuple[str, ...]:
    """What such a log cannot tell."""
    found = [
        "The share of the update is a reward's part of the variance of the advantages. Gradients also depend on the "
        "probabilities of the tokens, on clipping, on a KL term and on how tokens are averaged; none of that is in "
        "the log.",
        "What other methods would have done is computed on the rewards of this run. A run trained with another method "
        "would have produced other responses.",
        "Whether a reward measures what it is meant to measure. The text of prompts and responses is not read.",
    ]
    if report.run["reproduced"] is None:
        found.append(
            f"Which method the run used: {_no_advantages(report)}, so there is nothing to tell methods apart by."
        )
    if report.source["framework"] == "trl" and report.run["method"] not in ("gdpo", "grpo_batch_std"):
        found.append("Under GRPO the rows of an evaluation in a step’s file look like rows of the training.")
    return tuple(found)


# What the columns of the tables mean.
REWARDS = "Constant in groups: of the groups that hold the reward, those in which every response has the same value."
SHARES = (
    "A reward’s part of the variance of the advantages under each method; weight: its part of the sum of the weights "
    "(under GDPO shares go by their squares). Below 0: the update works against the reward."
)
METHODS = (
    "Groups with ties: of the groups whose rewards differ, those in which different rewards get the same advantage. "
    "Tied pairs: the same of the pairs of responses. Levels: distinct advantages in such a group. Silent groups: every "
    "advantage is 0. Inversions: of the pairs in a group that differ in the reward that matters most, those in which "
    "the lower one gets more."
)
DRIFT = "Means over the steps of each quarter; constant: share of the groups; update: share of the update."


def counted(report: AuditReport) -> str:
    """How many findings of which severity.

    >>> from types import SimpleNamespace as N
    >>> counted(N(findings=[N(severity="error"), N(severity="info"), N(severity="info")]))
    '1 error, 2 infos'
    """
    found = [f.severity for f in report.findings]
    some = [(found.count(s), s) for s in SEVERITIES if s in found]
    return ", ".join(f"{n} {s}{'s' * (n > 1)}" for n, s in some) or "no findings"


def compared(reports: Sequence[AuditReport]) -> dict[str, list[str]]:
    """The rows of a table with a column a run."""
    rows: dict[str, list[str]] = {}
    rows["written by"] = [source(report)["written by"] for report in reports]
    for key in ("steps", "responses", "groups"):
        rows[key] = [number(report.source[key]) for report in reports]
    rows["responses a group"] = [number(report.source["group_size"]) for report in reports]
    rows["method"] = [_method(report) for report in reports]
    conventions = [CONVENTIONS.get(report.run["convention"]) for report in reports]
    rows["convention"] = [c.name if c else "–" for c in conventions]
    rows["weights"] = [did(report).get("weights", "–").replace(", ", "\n") for report in reports]
    rows["reproduced"] = [_reproduced(report) for report in reports]
    for key, title in (("groups_with_ties", "groups with ties"), ("silent_groups", "silent groups")):
        for method in (m for m in NAMES if any(m in report.methods for report in reports)):
            shares = [report.methods.get(method, {}).get(key) for report in reports]
            rows[f"{title}, {NAMES[method]}"] = [percent(share) for share in shares]
    rows["constant in groups"] = [
        "\n".join(f"{plain(r['name'])} {percent(r['dead_groups'])}" for r in report.rewards) for report in reports
    ]
    rows["share of the update"] = [_own_shares(report) for report in reports]
    rows["findings"] = ["\n".join(dict.fromkeys(f.id for f in report.findings)) or "none" for report in reports]
    return rows


def _own_shares(report: AuditReport) -> str:
    method, _ = looked_at(report)
    shares = [f"{plain(r['name'])} {percent(r['update_share'].get(method))}" for r in report.rewards]
    return "\n".join(shares if acting(report) else [*shares, f"(if it was {NAMES.get(method, method)})"])
