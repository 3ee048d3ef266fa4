"""The choice of files: which files of a directory are the log of one run.

Files that are named as a trainer names its logs come first, and then files of any one format. The steps of a run may
lie in folders of their own, or, in W&B, under keys of their own.
"""

import glob
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import NoReturn, TypeAlias

from gdpo_audit.logs.files.conversions import A_SHEET, BINARY, SHEETS, TENSORS, advice
from gdpo_audit.logs.files.unpack import format_suffix, unpacked_name
from gdpo_audit.logs.refusals import refuse
from gdpo_core.frameworks import FRAMEWORKS
from gdpo_core.shared.errors import InputError
from gdpo_core.shared.words import count, listing

_TABLES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
# Names of configurations, metrics and reports, which often lie beside logs.
UNRELATED = re.compile(
    r"(audit|report|config|args|state|tokenizer|vocab|map|index|metrics|logging|results|processor|metadata"
    r"|logtree|timing_spans|checkpoints|materialized_inputs|rollouts_failures)\b.*$"
)
STATE = "trainer_state.json"  # TRL and ms-swift write into it, at each checkpoint, what they logged of all steps so far
# Words in the names of files that a run saves of its model.
_MODELS = re.compile(r"model|optim|sched|rng|state|args|ckpt|checkpoint|weight|adapter|consolidated|embed", re.I)
# The names of logs of trainers that are read as any table is. Only of these may a folder hold several runs, which the
# name tells apart.
_OTHER_TRAINERS = {
    "Tinker": re.compile(r"(?:^|/)[^/]+_rollout_summaries\.jsonl$"),
    "open-instruct": re.compile(r"(?:^|/)(?P<run>[^/]+)_rollouts_\d{6}\.jsonl$"),
    "ROLL": re.compile(r"(?:^|/)rollout_dump_data\.step_\d+\.jsonl$"),
    "rLLM": re.compile(r"(?:^|/)episode_hash[0-9a-f]+_id[^/]*\.json$"),
}
# The name of a table of W&B: KEY_INDEX_HASH.table.json in the folder of a run, KEY.table.json in an artifact.
WANDB_TABLE = re.compile(r"(?:^|/)(?P<key>[^/]+?)(?:_(?P<index>\d+)_[0-9a-f]{6,})?\.table\.json$")
# The folders around a log that belong to one run together with the log. Folders of artifacts begin with the name of
# their run.
_INSIDE_A_RUN = re.compile(r"(^|/)(?:completions|media/table(?:/.*)?|([^/]*?)-?completions[-:_]v\d+)$")

# A number in the name of a folder that counts the steps of a run, as in step_12 and train_step_3_epoch_0. Other
# numbers, as in seed_1 and run_2, tell runs from each other.
_WORD = r"steps?|iter|iteration|epoch|round|update|rollout"
_COUNTED = re.compile(rf"(?<![a-z])({_WORD})([-_=. ]*)(\d+)", re.IGNORECASE)
_ROLLOUTS = re.compile(r"(?<![a-z])rollouts?(?![a-z])", re.IGNORECASE)  # a folder of AReaL, whose folders are steps
_EVALUATION = re.compile(r"(?<![a-z])(?:evaluation|evals?|validation|valid|val|test)(?![a-z])[-_.]?", re.IGNORECASE)
_TRAINING = re.compile(r"(?:^|/)train(?:ing)?(?![a-z])[^/]*$", re.IGNORECASE)

Logs: TypeAlias = dict[tuple[str, str], list[str]]  # the paths of files by the folder of their run and their kind


class NoLog(InputError):
    """Raised where there is no file of a log, perhaps because the program that writes the log has not begun yet."""


class SeveralLogs(InputError):
    """Raised where several logs lie side by side.

    files: the files of all of them, if they are of one kind; they may be parts of one run that was started again.
    """

    files: Sequence[str] = ()


@dataclass(frozen=True)
class Chosen:
    """The files of a log in their order, and in words which files beside them were left out.

    several: why these are no log of one run, unless their steps continue each other; empty for the files of one log.
    """

    files: Sequence[str]
    left_out: tuple[str, ...] = ()
    several: str = ""


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key for a name, by which the numbers in names are ordered by size.

    >>> sorted(["10.jsonl", "9.jsonl", "b/1.jsonl"], key=natural)
    ['9.jsonl', '10.jsonl', 'b/1.jsonl']
    """
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in re.split(r"(\d+)", name) if piece]


def choose_files(names: Sequence[str], where: str, inside: str = "") -> Chosen:
    """Return the files of a directory that make up one log, and in words which files beside them are left out.

    Files that are named as a trainer names its logs come before all others. Files of evaluations beside files of
    training are left out, and so are hidden files. Of logs in folders of different depth only the nearest to the
    directory count. Where no completions were logged, the last trainer_state.json alone is returned, which holds means.
    names: the paths of all files inside the directory.
    where: the path of the directory, for errors. If the directory is called like rollouts, each folder in it whose name
        is a plain number is a step.
    inside: what a user has to write before one of these paths to name the file, for errors. It is empty if single files
        cannot be named.

    Raises NoLog if there is no log, and SeveralLogs if there are several. Raises InputError if a file is there both
    packed and unpacked.

    >>> choose_files(["run/completions.jsonl", "run/args.json", "run/logging.jsonl"], "run").files
    ['run/completions.jsonl']
    >>> choose_files(["step_1/a.jsonl", "step_2/a.jsonl", "step_10/a.jsonl"], "run").files
    ['step_1/a.jsonl', 'step_2/a.jsonl', 'step_10/a.jsonl']
    """
    visible = [name for name in sorted(names, key=natural) if not re.search(r"(^|/)(\.|__MACOSX)", name)]
    logs_by = partial(_by_folder, visible, where)
    logs = logs_by(_framework)
    # Tables under other keys, such as an evaluation's, are read only where no table has the usual key.
    for wanted in ("completions", "completions.+"):
        logs = logs or logs_by(partial(_wandb_key, wanted))
    logs = logs or logs_by(lambda name: f"*{format_suffix(name)}" if is_table(name) else None)
    # These come last, because other programs write databases too, and most tensors are a model's.
    logs = logs or logs_by(lambda name: "*.db" if name.endswith(".db") else None)
    logs = logs or logs_by(lambda name: f"*{format_suffix(name)}" if _is_dump(name) else None)
    states = [name for name in visible if name.rpartition("/")[2] == STATE]
    if not logs and states:
        return Chosen(states[-1:])  # no completions were logged, but means are there
    if not logs:
        _refuse_no_log(visible, where)
    logs, left_out = _without_evaluations(logs)
    depth = min(_depth(folder) for folder, _ in logs)
    nearest = {key: files for key, files in logs.items() if _depth(key[0]) == depth}
    if len(nearest) > 1:
        _refuse_several(nearest, where, inside)
    [files] = nearest.values()
    twice = [name for name, times in Counter(map(unpacked_name, files)).items() if times > 1]
    if twice:
        refuse(where, "each file of a log once", f"{listing(twice, most=3)} both packed and not")
    return Chosen(files, left_out)


def choose_one_or_parts(names: Sequence[str], where: str, inside: str = "") -> Chosen:
    """Return what `choose_files` returns, or the files of several logs of one kind, with the reason why they are
    several.

    Such logs may be parts of one run that was started again in another folder, as only their steps tell. The arguments
    are those of `choose_files`.

    Raises InputError as `choose_files` does, but not for several logs of one kind.
    """
    try:
        return choose_files(names, where, inside)
    except SeveralLogs as error:
        if not error.files:
            raise
        return Chosen(error.files, several=str(error))


def step_in(name: str) -> int | None:
    """Return the step that a folder around a file is named after, such as 12 for step_12; None if there is none.

    If several folders tell a step, the innermost counts. A folder whose name is a plain number tells a step if the
    folder around it is called like rollouts.
    name: the path of the file.

    >>> step_in("out/step_12/rows.jsonl"), step_in("rollout/3/17.jsonl"), step_in("seed_3/rows.jsonl")
    (12, 3, None)
    """
    folders = name.split("/")[:-1]
    for number in range(len(folders) - 1, -1, -1):
        counted = _COUNTED.search(folders[number])
        if counted:
            return int(counted[3])
        if folders[number].isdecimal() and number and _ROLLOUTS.search(folders[number - 1]):
            return int(folders[number])
    return None


def is_table(name: str) -> bool:
    """Return whether a file with this name may be a log.

    It has the ending of a table, and is not JSON that is named like a configuration, a report or the like.
    """
    base, suffix = unpacked_name(name).rpartition("/")[2].lower(), format_suffix(name)
    return suffix in _TABLES and not (suffix.startswith(".json") and bool(UNRELATED.search(base)))


# --- the files of one kind and one run -------------------------------------------------------------------------------


def _by_folder(names: Sequence[str], where: str, kind_of: Callable[[str], str | None]) -> Logs:
    """Return the files of each log, in lists. A log is the files of one kind in one run.

    The key of a list is a pair: the run's folder and the kind. In the path of the folder, # stands for a step's number.
    names: the paths of the files in the directory.
    where: the path of the directory.
    kind_of: returns the kind of a file for its path, such as "TRL" or "*.csv", or None for a file that is left out.
    """
    logs: Logs = {}
    for name in names:
        kind = kind_of(name)
        if kind is not None:
            folder = name.rpartition("/")[0]
            home = folder if kind.startswith("*") else _INSIDE_A_RUN.sub(_run_around, folder)
            logs.setdefault((_home(home, where), kind), []).append(name)
    return logs


def _run_around(inside: re.Match[str]) -> str:
    """Return what replaces the end of a folder's path, so that only the path of the run's own folder remains.

    The end is a folder that trainers make inside the run's folder. An empty text replaces a folder such as
    /completions. The folder of an artifact may name the run, as /RUN-completions:v3 does. Then /RUN replaces it.
    inside: the end of the path, as a match of `_INSIDE_A_RUN`.
    """
    return inside[1] + inside[2] if inside[2] else ""


def _home(folder: str, where: str) -> str:
    """Return the path of a folder inside a directory, with # in the place of each number that counts steps. Such a
    number, as in step_12, does not tell one run from another.

    A folder whose name is a plain number is a step if the folder around it is called like rollouts.
    folder: the path of the folder inside the directory; empty for the directory itself.
    where: the path of the directory, which is the folder around the outermost folder of that path.
    """
    folders = folder.split("/") if folder else []
    above = [where.rstrip("/").rpartition("/")[2], *folders]
    for number, name in enumerate(folders):
        of_rollouts = name.isdecimal() and _ROLLOUTS.search(above[number])
        folders[number] = "#" if of_rollouts else _COUNTED.sub(r"\1\2#", name)
    return "/".join(folders)


def _wandb_key(wanted: str, name: str) -> str | None:
    """Return the key under which W&B logged a table, in words such as "completions_step=# of W&B".

    In the key # stands for each number. None for a file that is no such table, or whose key does not match.
    wanted: a pattern that the whole key must match.
    name: the path of the file.
    """
    table = WANDB_TABLE.search(unpacked_name(name))
    return f"{key_of(table)} of W&B" if table and re.fullmatch(wanted, table["key"]) else None


def key_of(table: re.Match[str]) -> str:
    """Return the key of a table of W&B with # in the place of numbers, so that all keys of one run are equal.

    table: a match of `WANDB_TABLE`.

    >>> key_of(WANDB_TABLE.search("completions_step=12_12_00fe52.table.json"))
    'completions_step=#'
    """
    return re.sub(r"\d+", "#", table["key"])


def _framework(name: str) -> str | None:
    """Return the title of the trainer whose log files have names of this kind; None if no known trainer does.

    If the name also holds the name of a run, the result holds it too: "open-instruct's RUN".
    name: the path of a file.
    """
    name = unpacked_name(name)
    for title, pattern in _OTHER_TRAINERS.items():
        if match := pattern.search(name):
            return f"{title}'s {match['run']}" if "run" in match.groupdict() else title
    return next((f.title for f in FRAMEWORKS.values() if f.log_files and re.search(f.log_files, name)), None)


def _is_dump(name: str) -> bool:
    """Return whether a file may hold responses that torch.save wrote.

    Its name has to end as the names of torch's files do, and must not be like the name of a model's file.
    """
    return format_suffix(name) in TENSORS and not _is_of_a_model(name)


def _is_of_a_model(name: str) -> bool:
    """Return whether the name of a file says that it holds a model or an optimizer; its folders do not count."""
    return bool(_MODELS.search(name.rpartition("/")[2]))


def _depth(folder: str) -> int:
    """Return how many folders deep a folder lies: 0 for the empty path."""
    return folder.count("/") + bool(folder)


# --- what is not the log ---------------------------------------------------------------------------------------------


def _without_evaluations(logs: Logs) -> tuple[Logs, tuple[str, ...]]:
    """Return the logs without files of evaluations, and in words which files were left out.

    The file of an evaluation is left out only where a file of training lies beside it. prime-rl may log the episodes
    that were trained on twice. They stand in files of a folder "effective", and among all episodes in files of a folder
    "all". A file in "all" is left out where a file in "effective" has the same path but for numbers.
    logs: the files of each log, by folder and kind.
    """
    patterns = {re.sub(r"\d+", "#", name) for files in logs.values() for name in files}
    trains = {name.rpartition("/")[0] for name in patterns if _TRAINING.search(name)}
    kept: Logs = {}
    evaluations, dropped = list[str](), list[str]()
    for key, files in logs.items():
        for name in files:
            pattern = re.sub(r"\d+", "#", name)
            if _evaluates(pattern, patterns, trains):
                evaluations.append(name)
            elif re.sub(r"(^|/)all/", r"\1effective/", pattern) in patterns - {pattern}:
                dropped.append(name)
            else:
                kept.setdefault(key, []).append(name)
    words = [f"{count(len(evaluations), 'file')} of evaluations (as {evaluations[0]})"] if evaluations else []
    words += [f"{count(len(dropped), 'file')} of all episodes beside those trained on"] if dropped else []
    return kept, tuple(words)


def _evaluates(name: str, names: set[str], trains: set[str]) -> bool:
    """Return whether a file holds an evaluation: its name says so, and a file of training lies beside it.

    A file of training has the same path without the word for an evaluation, or with train or training in its place. If
    the file's own name begins with that word, any file in its folder whose name begins with train counts.
    name: the path of the file, with # for numbers.
    names: the paths of all files, with # for numbers.
    trains: the folders in which the name of a file begins with train.
    """
    if not _EVALUATION.search(name):
        return False
    folder, _, base = name.rpartition("/")
    if _EVALUATION.match(base) and folder in trains:
        return True
    counterparts = {_EVALUATION.sub("", name), *(_replaced(name, word) for word in ("train", "training"))}
    return any(counterpart in names and counterpart != name for counterpart in counterparts)


def _replaced(name: str, word: str) -> str:
    """Return the name of a file with `word` in place of each word that means an evaluation, such as eval or test."""
    return _EVALUATION.sub(lambda match: word + re.sub(r"[a-z]+", "", match[0], flags=re.IGNORECASE), name)


def _refuse_several(logs: Logs, where: str, inside: str) -> NoReturn:
    """Raise SeveralLogs for several logs that lie side by side; the error names up to four of them.

    logs: the files of each log, by folder and kind.
    where: the name of the directory.
    inside: what a user has to write before the path of a file, so that the error can name it. It is empty if single
        files cannot be named.
    """
    listed = [f"{kind} in {folder or where} ({files[0]})" for (folder, kind), files in sorted(logs.items())]
    way = "unpack it and name one of them"
    if inside:
        listed, way = [quote(inside + _path_of(key, logs)) for key in sorted(logs)], "name one of them"
    which = "; ".join(listed[:4]) + ("; …" if len(listed) > 4 else "")
    try:
        refuse(where, "the log of one run", f"several, {way}: {which}", SeveralLogs)
    except SeveralLogs as error:
        if len({kind for _, kind in logs}) == 1:
            error.files = [name for files in logs.values() for name in files]
        raise


def _path_of(log: tuple[str, str], logs: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return a path that leads to one of several logs alone: a folder, a file or a glob.

    log: the folder and the kind of this log, which are its key in `logs`.
    logs: the files of each log.

    >>> logs = {("a", "TRL"): ["a/completions/1.parquet"], ("b", "*.csv"): ["b/x.csv"]}
    >>> logs |= {("b", "*.ab"): ["b/1.ab", "b/2.ab"]}
    >>> [_path_of(log, logs) for log in logs]
    ['a', 'b/x.csv', 'b/*.ab']
    """
    files, folder = logs[log], log[0]
    if folder and [home for home, _ in logs].count(folder) == 1:
        return folder
    beside, suffix = files[0].rpartition("/")[:2], files[0].rpartition(".")[2]
    return files[0] if len(files) == 1 else f"{glob.escape(''.join(beside))}*.{suffix}"


def _refuse_no_log(names: Sequence[str], where: str) -> NoReturn:
    """Raise NoLog for files of which none can be a log; the error says how to convert files that only Python reads.

    names: the paths of the files inside a directory.
    where: the path of that directory.
    """
    got = listing(sorted(names), most=5) if names else "no files"
    dumps = [name for name in names if name.lower().endswith(BINARY) and not _is_of_a_model(name)]
    got += f"; {advice(f'{where}/{dumps[0]}')}" if dumps else ""
    sheet = next((name for name in names if name.lower().endswith(SHEETS)), None)
    got += f"; {sheet} is {A_SHEET}" if sheet and not dumps else ""
    refuse(where, f"a log: files that end in {', '.join((*_TABLES, *TENSORS))}", got, NoLog)
