"""Tells which framework wrote a log, from its columns; the names of its files do not count."""

from collections.abc import Collection

from gdpo_core.errors import InputError
from gdpo_core.logs import jsonl, parquet
from gdpo_core.logs.draft import Asked
from gdpo_core.logs.files import Found, LogFile
from gdpo_core.logs.formats import format_of

FRAMEWORKS = {
    "trl": "trl",
    "axolotl": "trl",
    "verl": "verl",
    "ms_swift": "ms_swift",
    "swift": "ms_swift",
    "nemo_rl": "nemo_rl",
    "nemo": "nemo_rl",
    "generic": "generic",
}
NAMES = "trl (axolotl), verl, ms_swift, nemo_rl, generic"


def framework_named(name: object) -> str:
    """The framework of this name, in any spelling.

    >>> framework_named("MS-Swift"), framework_named("axolotl")
    ('ms_swift', 'trl')
    """
    key = name.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
    if key not in FRAMEWORKS:
        raise InputError(f"framework: expected one of {NAMES}, got {name!r}")
    return FRAMEWORKS[key]


def detect(found: Found, asked: Asked) -> str:
    """The framework whose columns the files have; "generic" if that is none of the known ones.

    Raises InputError if different frameworks wrote the files.
    """
    first, *rest = found.files
    framework, kind = _of(first, asked), format_of(first)
    for file in rest:
        other = framework if kind == "parquet" == format_of(file) else _of(file, asked)
        if other != framework or format_of(file) != kind:
            raise InputError(
                f"{found.name}: expected the log of one run, got {framework} in {first.name} "
                f"and {other} in {file.name}; name one of them"
            )
    return framework


def _of(file: LogFile, asked: Asked) -> str:
    kind = format_of(file)
    if kind == "parquet":
        return "trl" if is_trl(parquet.schema(file)) else "generic"
    if kind != "jsonl":
        return "generic"
    items = jsonl.head(file, asked.skip_bad_lines, lines=1)
    return of_object(items[0]) if items else "generic"


def is_trl(columns: Collection[str]) -> bool:
    """Whether these are the columns of TRL's completions."""
    return "step" in columns and ("completion" in columns or {"prompt", "advantage"} <= set(columns))


def of_object(item: dict) -> str:
    """The framework that writes objects with these keys.

    >>> of_object({"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 7})
    'verl'
    """
    if {"input", "output", "score"} <= item.keys():
        return "verl"
    # Lists as prompts do not tell: a chat is a list of messages. The reader refuses a step that is no list.
    listed = isinstance(item.get("step"), list) or isinstance(item.get("advantages"), list)
    if {"prompt", "completion"} <= item.keys() and ("gen_step" in item or ("step" in item and listed)):
        return "ms_swift"
    beside = {"content", "token_loss_mask", "sample_loss_mask", "generation_logprobs", "prev_logprobs", "input_lengths"}
    if "rewards" in item and (beside & item.keys() or isinstance(item.get("advantages"), list)):
        return "nemo_rl"
    return "generic"
