"""Transform clean logs of each trainer and compare the reports: `python -m tests.metamorphic [--pairs | --threes]`.

A transformation must change no figure, or the report has to tell it. What came of it is one of VERDICTS; a figure that
is wrong without a word, and a crash, are faults.
"""

import argparse
import os
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations
from multiprocessing import get_context
from zlib import crc32

import numpy as np
from rich.console import Console
from rich.table import Table

import gdpo_audit as ga
import gdpo_core as gc
from tests.metamorphic_changes import CHANGES
from tests.metamorphic_logs import CLEAN, SIZE, Log

VERDICTS = {
    "right": "all figures are those of the clean log",
    "told": "a figure differs or is withheld, and the report tells the transformation",
    "doubted": "a figure differs, and the report says that it does not know, or that it takes for granted, but not why",
    "refused": "the log is refused, with a way on",
    "dead end": "the log is refused without a way on, or the way on is refused too",
    "misled": "the log is refused, and with the option that the refusal names a figure is wrong without a word",
    "WRONG": "a figure differs without a word",
    "crash": "an error that no check foresaw",
}
Case = tuple[str, tuple[str, ...]]  # a trainer, and transformations of its clean log
FAULTS = ("WRONG", "crash", "misled")
OPEN_SCALE = 1e-4  # how far figures may be off where only the ratio of the weights is known, and so not what eps does
PLAIN: dict = {"highlight": False, "markup": False, "soft_wrap": True}
SLOW = 10.0  # seconds of CPU that a tiny log may take
# What a report says where it knows only that something is wrong with the advantages, or what it takes for granted.
DOUBT = (
    "advantages-not-reproduced|advantage-impossible|advantages-upside-down|taken for granted, (responses|groups|rew|we)"
)

# What is wrong today, with the reason: for each transformation (or pair, joined by " + "), the trainers. This may only
# shrink: a case that is listed here and passes fails the test.
KNOWN: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class Outcome:
    """Hold what came of a transformed log.

    trainer: a key of CLEAN.
    names: keys of CHANGES.
    verdict: a key of VERDICTS.
    why: what differs, or the error.
    seconds: the CPU that it took.
    """

    trainer: str
    names: tuple[str, ...]
    verdict: str
    why: str = ""
    seconds: float = 0.0

    @property
    def case(self) -> Case:
        """The trainer and the transformations."""
        return self.trainer, self.names

    @property
    def title(self) -> str:
        """The trainer and the transformations, in words."""
        return f"{self.trainer}: {' + '.join(self.names)}"


# --- the figures of a report -----------------------------------------------------------------------------------------


def figures(report: ga.AuditReport, log: Log) -> dict[str, object]:
    """Return the figures of a report by name, with the rewards named as in the clean log."""
    run, read = report.run, [reward["name"] for reward in report.rewards]
    of_column = {now: name for name, now in log.rewards.items()}
    names = {name: of_column.get(name.rpartition(".")[2], name) for name in read}
    if log.positional:
        names |= dict(zip((name for name in read if name.startswith("rewards")), log.rewards, strict=False))
    weights = [*run["weights_used"].values()]
    scale = sum(map(abs, weights)) or 1.0
    values: dict[str, object] = {
        "open scale": bool(run["weights_up_to_scale"]),
        "rewards": tuple(sorted(names.values())),
        "method": run["method"],
    }
    values |= {f"weight {names[name]}": w / scale for name, w in run["weights_used"].items() if name in names}
    for reward in report.rewards:
        for kind in ("update_share", "push"):
            of_methods = {m: v for m, v in reward[kind].items() if m in ("grpo", "grpo_no_std", "gdpo")}
            values |= {f"{kind} {names[reward['name']]} {m}": v for m, v in of_methods.items()}
    values |= {f"silent {m}": report.methods[m]["silent_groups"] for m in ("grpo", "gdpo") if m in report.methods}
    return values | {name: report.source[name] for name in ("groups", "responses")}


def differing(got: Mapping, expected: Sequence[Mapping], within: float) -> list[str]:
    """Return the figures that are none of those expected, each with its value and the first one expected. within: how
    far numbers may be off.
    """

    def equal(a, b) -> bool:
        numbers = isinstance(a, float) and isinstance(b, float)
        return a == b or (numbers and (abs(a - b) <= within or (a != a and b != b)))

    names = dict.fromkeys(chain(*expected, got))
    names.pop("open scale")  # whether only the ratio of the weights is known is no figure
    off = [name for name in names if not any(equal(got.get(name), figures.get(name)) for figures in expected)]
    return [f"{name} {shown(got.get(name))}, not {shown(expected[0].get(name))}" for name in off]


def shown(value: object) -> str:
    """Return a value in few characters."""
    return f"{value:.3g}" if isinstance(value, float) else " ".join(value) if isinstance(value, tuple) else str(value)


def said(report: ga.AuditReport) -> list[str]:
    """Return the ids and the sentences by which a report tells what is special about a log, and what it says that it
    takes for granted.
    """
    reasons = [f"{name}: {why}" for name, why in report.run["not_counted"].items()]
    granted = [claim for claim in getattr(report, "reading", ()) if claim.evidence == "assumed"]
    claims = [f"taken for granted, {claim.what}: {claim.taken}; {claim.because}" for claim in granted]
    ids = [finding.id for finding in report.findings]
    return [*ids, *report.notes, *report.run["remarks"], *reasons, *report.source["left_out"], *claims]


# --- one transformed log ---------------------------------------------------------------------------------------------


@cache
def clean_log(trainer: str) -> Log:
    """Return the clean log of a trainer."""
    return CLEAN[trainer]()


@dataclass(frozen=True)
class Judged:
    """Hold the verdict on a log, and what the report on it says.

    verdict: a key of VERDICTS.
    why: what differs, or the error.
    figures: the figures of the report; empty without one.
    says: the sentences and ids of the report.
    """

    verdict: str
    why: str = ""
    figures: Mapping[str, object] = field(default_factory=dict)
    says: tuple[str, ...] = ()


@cache
def clean_report(trainer: str) -> Judged:
    """Return what the report on a trainer's clean log says."""
    log = clean_log(trainer)
    report = ga.audit(ga.read_run(log.files))
    return Judged("right", "", figures(report, log), tuple(said(report)))


@cache
def alone(trainer: str, name: str) -> Judged:
    """Return the verdict on a trainer's clean log after one transformation."""
    log = transformed(trainer, (name,))
    return judged(log, (name,), log.files)


def transformed(trainer: str, names: Iterable[str]) -> Log:
    """Return the clean log of a trainer after some transformations, in the order of their stages."""
    log = clean_log(trainer)
    for name in sorted(names, key=lambda name: CHANGES[name].stage):
        log = CHANGES[name].make(log, np.random.default_rng(crc32(f"{trainer} {name}".encode())))
    return log


def outcome(case: Case) -> Outcome:
    """Return what came of a case."""
    trainer, names = case
    start = time.process_time()
    log = transformed(trainer, names)
    came = alone(trainer, *names) if len(names) == 1 else judged(log, names, log.files)
    return Outcome(trainer, names, came.verdict, came.why, time.process_time() - start)


def judged(log: Log, names: Sequence[str], files: Mapping[str, bytes], **options) -> Judged:
    """Return the verdict on a log after some transformations. options: those of `read_run`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = ga.audit(ga.read_run(dict(files), **options))
    except gc.InputError as error:
        return refused(str(error), log, names, files, options)
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(places) if "gdpo_" in frame.filename), places[-1])
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        return Judged("crash", f"{type(error).__name__}: {error} ({where})")
    return compared(log.trainer, names, figures(report, log), tuple(said(report)))


def compared(trainer: str, names: Sequence[str], got: Mapping, says: tuple[str, ...]) -> Judged:
    """Return the verdict on a report, given its figures and what it says.

    Several transformations count as told if each of them that changes figures alone is told. If that is only one, the
    figures have to be those of the clean log or those after it alone, or one more has to be told.
    """
    clean = clean_report(trainer)
    scale = OPEN_SCALE * bool(got["open scale"] or clean.figures["open scale"])
    within = max(scale, *(CHANGES[name].rounds for name in names))
    off = differing(got, [clean.figures], within)
    if not off:
        return Judged("right", "", got, says)
    why = "; ".join(off[:3]) + f" … {len(off)} figures" * (len(off) > 3)
    text = "\n".join(line for line in says if line not in clean.says)
    told = {name for name in names if CHANGES[name].tells and re.search(CHANGES[name].tells, text)}
    due = {name for name in names if len(names) > 1 and alone(trainer, name).verdict in ("told", "doubted")}
    explained = [clean.figures, *(alone(trainer, name).figures for name in due)]
    if told and told >= due and (len(due) != 1 or told > due or not differing(got, explained, within)):
        return Judged("told", why, got, says)
    return Judged("doubted" if re.search(DOUBT, text) else "WRONG", why, got, says)


OPTION = re.compile(r"--(group-size|group|reward|skip-bad)\b")
ASKS = re.compile(r"(?:[;:,]|\b(?:or|and)) (?:log|write|save|export|name|convert|leave|unpack)\b(?! all rewards)")


def refused(message: str, log: Log, names: Sequence[str], files: Mapping[str, bytes], options: Mapping) -> Judged:
    """Return the verdict on a log that is refused. The options that the message names are tried, as somebody would give
    them who knows what the columns hold.
    """
    values = {
        "group-size": {"group_size": SIZE},
        "group": {"group": log.names["group"]},
        "skip-bad": {"skip_bad": True},
    }
    values |= {"reward": {"rewards": [*log.rewards.values()]}}
    misled = None
    for more in (values[name] for name in dict.fromkeys(OPTION.findall(message))):
        if not more.keys() & options.keys():
            came = judged(log, names, files, **options, **more)
            if came.verdict in ("right", "told", "doubted", "refused"):
                return Judged("refused", message)
            if came.verdict in FAULTS:
                misled = Judged("misled", f"{message} [with {more}: {came.verdict}: {came.why}]")
    if ASKS.search(message):
        return Judged("refused", message)
    return misled or Judged("dead end", message)


# --- what is known to be wrong ---------------------------------------------------------------------------------------


def listed(of_reason: Mapping[str, str]) -> Iterator[Case]:
    """Yield the cases that stand under a reason of KNOWN."""
    for names, trainers in of_reason.items():
        yield from ((trainer, tuple(names.split(" + "))) for trainer in trainers.split())


def known(case: Case) -> str:
    """Return why a case is known to be wrong; "" if it is not."""
    return next((reason for reason, of_reason in KNOWN.items() if case in listed(of_reason)), "")


def known_alone(case: Case) -> bool:
    """Return whether a single transformation of a case is known to be wrong by itself."""
    return any(known((case[0], (name,))) for name in case[1])


# --- many ------------------------------------------------------------------------------------------------------------


def possible(trainer: str, names: Sequence[str]) -> bool:
    """Return whether these transformations can be done together to the log of a trainer."""
    made = [CHANGES[name] for name in names]
    slots = [change.slot for change in made if change.slot]
    return len(slots) == len(set(slots)) and all(trainer in change.trainers for change in made)


def cases(count: int, trainers: Iterable[str] = tuple(CLEAN)) -> Iterator[Case]:
    """Yield each trainer with so many transformations that can be done together."""
    for trainer in trainers:
        yield from ((trainer, names) for names in combinations(CHANGES, count) if possible(trainer, names))


def rotation(part: int, parts: int, count: int = 2, trainers: Iterable[str] = tuple(CLEAN)) -> list:
    """Return every `parts`-th case of so many transformations, by a mark that does not depend on their order. part: the
    number of the rotation, from 0.
    """
    return [case for case in cases(count, trainers) if crc32(repr(case).encode()) % parts == part % parts]


def tried(some: Sequence, jobs: int = 1) -> Iterator[Outcome]:
    """Yield what came of each case. jobs: the processes that try them."""
    if jobs == 1:
        yield from map(outcome, some)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:  # polars has threads, which a fork would lose
        yield from pool.map(outcome, some, chunksize=8)


def print_tables(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print how many cases of each transformation came out how, and all that is wrong."""
    table = Table("transformation", *VERDICTS, title=f"{len(outcomes)} transformed logs")
    for name, change in CHANGES.items():
        count = Counter(o.verdict for o in outcomes if name in o.names)
        table.add_row(f"{name}{' *' * change.told}", *(str(count[v] or "") for v in VERDICTS))
    count = Counter(o.verdict for o in outcomes)
    table.add_section()
    table.add_row("all", *(str(count[v]) for v in VERDICTS))
    console.print(table, "* has to be told; all else must change no figure.", sep="\n")
    for verdict in (*FAULTS, "dead end", "doubted"):
        for o in outcomes:
            if o.verdict == verdict and (verdict != "doubted" or len(o.names) == 1):
                console.print(f"{verdict}: {o.title}: {o.why[:300]}", **PLAIN)
    for o in sorted((o for o in outcomes if o.seconds > SLOW), key=lambda o: -o.seconds)[:10]:
        console.print(f"slow: {o.title}: {o.seconds:.0f} s of CPU", **PLAIN)


def main(arguments: Sequence[str]) -> int:
    """Try the transformations, print the table, and return 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.metamorphic", description=__doc__)
    parser.add_argument("--pairs", action="store_true", help="all pairs of transformations too")
    parser.add_argument("--threes", action="store_true", help="all threes too")
    parser.add_argument("--trainers", default=",".join(CLEAN), help="some of %(default)s")
    parser.add_argument("--part", default="0/1", metavar="N/M", help="of threes only part N of M, from 0")
    parser.add_argument("--jobs", type=int, default=1, help="the processes that try them")
    options = parser.parse_args(arguments)
    trainers, part = options.trainers.split(","), [int(number) for number in options.part.split("/")]
    some = [*cases(1, trainers), *(cases(2, trainers) if options.pairs else ())]
    some += rotation(*part, 3, trainers) if options.threes else []
    console = Console(width=None if sys.stdout.isatty() else 150)
    outcomes = [*tried(some, options.jobs)]
    print_tables(outcomes, console)
    unknown = [o for o in outcomes if o.verdict in FAULTS and not (known(o.case) or known_alone(o.case))]
    mended = [o for o in outcomes if o.verdict not in FAULTS and known(o.case)]
    for what, cases_of in (("new faults", unknown), ("no faults any more, to be taken out of KNOWN", mended)):
        trainers_of: dict[str, list[str]] = {}
        for o in cases_of:
            trainers_of.setdefault(" + ".join(o.names), []).append(o.trainer)
        lines = [f'  "{names}": "{" ".join(some)}",' for names, some in trainers_of.items()]
        console.print(f"{len(cases_of)} {what}", *lines, sep="\n", **PLAIN)
    return int(bool(unknown or mended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
