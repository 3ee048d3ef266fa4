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
from dataclasses import dataclass
from functools import cache
from itertools import combinations
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
    "doubted": "a figure differs, and the report says that it does not know what made the advantages, but not why",
    "refused": "the log is refused, with a way on",
    "dead end": "the log is refused without a way on, or the way on is refused too",
    "misled": "the log is refused, and with the option that the refusal names a figure is wrong without a word",
    "WRONG": "a figure differs without a word",
    "crash": "an error that no check foresaw",
}
Case = tuple[str, tuple[str, ...]]  # a trainer, and transformations of its clean log
FAULTS = ("WRONG", "crash", "misled")
OPEN_SCALE = 1e-4  # how far figures may be off where only the ratio of the weights is known, and so not what eps does
SLOW = 10.0  # seconds of CPU that a tiny log may take
# What a report says where it knows only that something is wrong with the advantages.
DOUBT = "advantages-not-reproduced|advantage-impossible|advantages-upside-down"

# What is wrong today, with the reason: for each transformation (or pair, joined by " + "), the trainers. This may only
# shrink: a case that is listed here and passes fails the test.
KNOWN: dict[str, dict[str, str]] = {
    "rows of an evaluation count as responses of the training": {
        "evaluation added": "trl table",
        "single answers added": "trl table",
        "split added": "trl verl table",
    },
    "a column with one value is a reward with a weight": {
        "constant whole number": "trl verl ms_swift table",
        "constant fraction": "trl verl ms_swift table",
        "constant foreign number": "trl verl ms_swift table",
    },
    "advantages are a reward, and steps, groups and totals are not known, under foreign names": {
        "all renamed": "trl verl ms_swift table",
    },
    "a table with a row per group is read as one response per group": {"wide": "trl verl table"},
    "beside a score, rewards in an object or a list are not read": {
        "object of rewards": "verl",
        "list of rewards": "verl",
        "json of rewards": "verl",
    },
    "each file of a step is a batch of its own": {"ranks": "trl verl", "groups over ranks": "verl"},
    "masked rows of GDPO are said to show that a reward is missing": {"rows masked": "trl ms_swift"},
    "that rows lack at random is not said without advantages": {"rows dropped": "verl"},
    "an episode that stands twice in a file counts twice": {"restart repeated": "verifiers"},
    "a group of one at the end ends the search for leave-one-out": {"best and worst kept": "trl"},
}


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


def differing(got: Mapping, expected: Mapping, within: float) -> list[str]:
    """Return the figures that are not those expected, each with both values. within: how far numbers may be off."""

    def equal(a, b) -> bool:
        numbers = isinstance(a, float) and isinstance(b, float)
        return a == b or (numbers and (abs(a - b) <= within or (a != a and b != b)))

    names = [*expected, *(name for name in got if name not in expected)][1:]  # whether the scale is open is no figure
    off = [name for name in names if not equal(got.get(name), expected.get(name))]
    return [f"{name} {shown(got.get(name))}, not {shown(expected.get(name))}" for name in off]


def shown(value: object) -> str:
    """Return a value in few characters."""
    return f"{value:.3g}" if isinstance(value, float) else " ".join(value) if isinstance(value, tuple) else str(value)


def said(report: ga.AuditReport) -> str:
    """Return the ids and the sentences by which a report tells what is special about a log."""
    issues = [] if report._facts is None else [issue.id for issue in report._facts.run.issues]
    ids = [*issues, *(finding.id for finding in report.findings)]
    reasons = [f"{name}: {why}" for name, why in report.run["not_counted"].items()]
    sentences = [*report.notes, *report.run["remarks"], *reasons, *report.source["left_out"]]
    return "\n".join([*ids, *sentences, str(getattr(report, "reading", ""))])


# --- one transformed log ---------------------------------------------------------------------------------------------


@cache
def clean_log(trainer: str) -> Log:
    """Return the clean log of a trainer."""
    return CLEAN[trainer]()


@cache
def clean_figures(trainer: str) -> Mapping[str, object]:
    """Return the figures of a trainer's clean log."""
    log = clean_log(trainer)
    return figures(ga.audit(ga.read_run(log.files)), log)


def transformed(trainer: str, names: Iterable[str]) -> Log:
    """Return the clean log of a trainer after some transformations, in the order of their stages."""
    log = clean_log(trainer)
    for name in sorted(names, key=lambda name: CHANGES[name].stage):
        log = CHANGES[name].make(log, np.random.default_rng(crc32(f"{trainer} {name}".encode())))
    return log


def outcome(case: Case) -> Outcome:
    """Return what came of a case."""
    trainer, names = case
    log = transformed(trainer, names)
    files, start = log.files, time.process_time()
    verdict, why = judged(log, names, files)
    return Outcome(trainer, names, verdict, why, time.process_time() - start)


def judged(log: Log, names: Sequence[str], files: Mapping[str, bytes], **options) -> tuple[str, str]:
    """Return the verdict on a transformed log, and what differs, or the error. options: those of `read_run`."""
    expected = clean_figures(log.trainer)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = ga.audit(ga.read_run(dict(files), **options))
    except gc.InputError as error:
        return refused(str(error), log, names, files, options)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "crash", f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
    made = [CHANGES[name] for name in names]
    open_scale = OPEN_SCALE * bool(report.run["weights_up_to_scale"] or expected["open scale"])
    within = max(open_scale, *(change.rounds for change in made))
    off = differing(figures(report, log), expected, within)
    if not off:
        return "right", ""
    text, why = said(report), "; ".join(off[:3]) + f" … {len(off)} figures" * (len(off) > 3)
    if any(change.tells and re.search(change.tells, text) for change in made):
        return "told", why
    return ("doubted" if re.search(DOUBT, text) else "WRONG"), why


OPTION = re.compile(r"--(group-size|group|reward|skip-bad)\b")
ASKS = re.compile(r"(?:[;:,]|\b(?:or|and)) (?:log|write|save|export|name|convert|leave|unpack)\b(?! all rewards)")


def refused(
    message: str, log: Log, names: Sequence[str], files: Mapping[str, bytes], options: Mapping
) -> tuple[str, str]:
    """Return the verdict on a log that is refused. The options that the message names are tried, as somebody would give
    them who knows what the columns hold.
    """
    group, rewards = log.names["group"], [*log.rewards.values()]
    values = {"group-size": {"group_size": SIZE}, "group": {"group": group}, "reward": {"rewards": rewards}}
    values |= {"skip-bad": {"skip_bad": True}}
    named = [values[name] for name in dict.fromkeys(OPTION.findall(message))]
    verdicts = []
    for more in named:
        if not more.keys() & options.keys():
            verdict, why = judged(log, names, files, **options, **more)
            if verdict in ("right", "told", "doubted", "refused"):
                return "refused", message
            verdicts.append(("misled" if verdict in FAULTS else verdict, f"{message} [with {more}: {why}]"))
    if ASKS.search(message):
        return "refused", message
    return min(verdicts, key=lambda x: x[0] != "misled", default=("dead end", message))


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
            if o.verdict == verdict:
                console.print(f"{verdict}: {o.title}: {o.why[:300]}", highlight=False, markup=False)
    for o in sorted((o for o in outcomes if o.seconds > SLOW), key=lambda o: -o.seconds)[:10]:
        console.print(f"slow: {o.title}: {o.seconds:.0f} s of CPU", highlight=False, markup=False)


def main(arguments: Sequence[str]) -> int:
    """Try the transformations, print the table, and return 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.metamorphic", description=__doc__)
    parser.add_argument("--pairs", action="store_true", help="all pairs of transformations too")
    parser.add_argument("--threes", action="store_true", help="all threes too")
    parser.add_argument("--trainers", default=",".join(CLEAN), help="some of %(default)s")
    parser.add_argument("--part", default="0/1", metavar="N/M", help="of threes only part N of M, from 0")
    parser.add_argument("--jobs", type=int, default=1, help="the processes that try them")
    options = parser.parse_args(arguments)
    trainers, (part, parts) = options.trainers.split(","), map(int, options.part.split("/"))
    some = [*cases(1, trainers), *(cases(2, trainers) if options.pairs else ())]
    some += rotation(part, parts, 3, trainers) if options.threes else []
    console = Console(width=None if sys.stdout.isatty() else 150)
    outcomes = [*tried(some, options.jobs)]
    print_tables(outcomes, console)
    unknown = [o for o in outcomes if o.verdict in FAULTS and not (known(o.case) or known_alone(o.case))]
    mended = [o for o in outcomes if o.verdict not in FAULTS and known(o.case)]
    for what, some_of_them in (("new fault", unknown), ("no fault any more; take it out of KNOWN", mended)):
        for o in some_of_them:
            console.print(f"{what}: {o.title}", highlight=False, markup=False)
    return int(bool(unknown or mended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
