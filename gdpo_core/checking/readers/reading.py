"""The reading of the files of a configuration, each in the form that it has: YAML, JSON, Python, notebook or script."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from gdpo_core.checking.readers.make import MAKEFILES, read_makefile
from gdpo_core.checking.readers.program import code_cells, read_cells, read_python, written_files
from gdpo_core.checking.readers.shell import COMMAND, read_shell
from gdpo_core.checking.readers.sources import Entry, Source, Unread, installed_by
from gdpo_core.checking.readers.values import mapping_of, read_json_entries, read_yaml
from gdpo_core.shared.errors import InputError, expect

Given: TypeAlias = str | Path | Sequence[str | Path] | Mapping[str, str | bytes]

_LARGEST = 2_000_000  # the most bytes of a file; a configuration has some thousand
_MOST_VARIABLES = 1000  # how many variables that a job sets are read
_PARENTS = 10  # how many files may build on one another
_READERS: dict[str, Callable[[str, str, Mapping[str, Any]], list[Source]]] = {
    **dict.fromkeys((".yaml", ".yml"), lambda text, file, _: _with_commands(read_yaml(text, file))),
    ".json": lambda text, file, _: [read_json_entries(text, file)],
    ".py": read_python,
    ".ipynb": lambda text, file, files: _read_notebook(code_cells(text, file), file, files),
    ".mk": lambda text, file, _: read_makefile(text, file),
    **dict.fromkeys((".sh", ".bash", ".slurm", ".sbatch", ".zsh"), lambda text, file, _: read_shell(text, file)),
}
_COMMAND = re.compile(
    r"^[ \t]*(?:\w+=\S*[ \t]+)*(?:python3?|torchrun|accelerate|deepspeed|uv|ray|swift|megatron|trl|axolotl)\s", re.M
)
_CALL = re.compile(r"^[ \t]*(?:from\s+\w[\w.]*\s+import|import\s+\w)|\w(?:Config|Trainer|Arguments)\(", re.M)
_OPTION = re.compile(r"^[ \t]*(?:--\w|\+{0,2}[\w.]+\.\w+=)", re.M)


def read_files(given: Given) -> list[Source]:
    """Return the sources of entries that the files of a configuration hold, in the order of the files.

    If a file that is given by its path builds on another file beside it, the sources of the other file come first.

    given: a path or several, or texts by the names of their files.

    Raises InputError.
    """
    if isinstance(given, Mapping):
        texts = {str(name): _decoded(text, str(name)) for name, text in given.items()}
        expect(bool(texts), "configuration", "at least one text", "none")
        files = _values_of(texts)
        return _without_loaded([source for name, text in texts.items() for source in read_text(text, name, files)])
    paths = [given] if isinstance(given, str | Path) else list(given) if isinstance(given, list | tuple) else []
    fits = bool(paths) and all(isinstance(path, str | Path) for path in paths)
    expect(fits, "configuration", "the path of a file, several, or texts by their names", repr(given)[:80])
    contents = {str(path): _content(Path(path)) for path in paths}
    files = _values_of(contents)
    return _without_loaded(
        [source for path in paths for source in _read_path(Path(path), contents[str(path)], files, 0)]
    )


def _values_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the mapping that each file .yaml, .yml or .json holds, by its name without folders. Of two files of one
    name the later one stays, and what cannot be read is left out.

    texts: the texts of all files by their names.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if Path(name).suffix.lower() in (".yaml", ".yml", ".json"):
            with suppress(InputError):
                values[Path(name).name] = mapping_of(text, name)
    return values


def _without_loaded(sources: list[Source]) -> list[Source]:
    """Return sources without those of files of values that a program loads itself, as only it knows what they mean."""
    loaded = {name for source in sources for name in source.loads}
    return [source for source in sources if source.mark or Path(source.file).name not in loaded]


def names_of(given: Given) -> tuple[str, ...]:
    """Return the names of the files of a configuration in their order.

    given: the path of a file or several, or texts by the names of their files.
    """
    return tuple(str(name) for name in ([given] if isinstance(given, str | Path) else given))


def read_text(text: str, file: str, files: Mapping[str, Any]) -> list[Source]:
    """Return the settings in the text of one configuration file: a `Source` for each place where some stand together.

    Such a place is a YAML or JSON file, a command of a script or a call of a program. The ending of the name `file`
    says which form the text has; without a known ending the form is guessed from the text.

    files: the content of each YAML or JSON file that a program may load, by its name without folders.

    Raises InputError for a text that is too long or has not the form that it seems to have.
    """
    expect(len(text) <= _LARGEST, file, f"at most {_LARGEST:,} characters", f"{len(text):,}")
    text = text.removeprefix("\ufeff")  # a byte order mark
    name = Path(file)
    ending = ".mk" if name.name in MAKEFILES else name.suffix.lower()
    return _READERS.get(ending, _reader_of(text))(text, file, files)


def _reader_of(text: str) -> Callable[[str, str, Mapping[str, Any]], list[Source]]:
    """Return the function that reads a text, chosen by what the text looks like.

    It can look like JSON, a notebook, a script, a program or YAML.
    """
    begun = text.lstrip()[:1]
    if begun == "{":
        return _READERS[".ipynb" if '"cells"' in text and '"cell_type"' in text else ".json"]
    if text.startswith("#!") or _COMMAND.search(text):
        return _READERS[".sh"]
    if _CALL.search(text):
        return _READERS[".py"]
    return _READERS[".sh" if _OPTION.search(text) else ".yaml"]


def _with_commands(source: Source) -> list[Source]:
    """Return the source of a file of values, followed by a source for each trainer's command that stands in a value, as
    text or as a list of words.

    Files that start jobs on a cluster hold such commands.
    """
    sources, variables = [source], _environment(source.entries)
    for key, entry in source.entries.items():
        value = entry.value.text if isinstance(entry.value, Unread) else entry.value
        if isinstance(value, list) and all(isinstance(word, str | int | float) for word in value):
            value = shlex.join(map(str, value))
        if isinstance(value, str) and COMMAND.search(value):
            line = int(entry.place.rpartition(":")[2])
            given = {name: text for place, name, text in variables if key.startswith(place)}
            sources += read_shell(value, source.file, first=line + ("\n" in value), given=given)
    return sources


def _environment(entries: Mapping[str, Entry]) -> list[tuple[str, str, str]]:
    """Return the variables that a job's `env` or `envs` sets, with their values, each after the begin of the keys for
    whose commands it is set: those beside it, or further in.
    """
    variables = []
    for key, entry in entries.items():
        owner, _, name = key.rpartition(".")
        place, dot, last = owner.rpartition(".")
        if last in ("env", "envs") and isinstance(entry.value, str | int | float):
            variables.append((place + dot, name, str(entry.value)))
    return variables[:_MOST_VARIABLES]


def _read_notebook(cells: Sequence[str], file: str, files: Mapping[str, Any]) -> list[Source]:
    """Return the sources of a notebook, and before them the sources of the files that its cells write.

    A file counts if the ending of its name is the ending of a configuration, a program or a script. A file that cannot
    be read, such as a file of data, is passed over.

    cells: the texts of the notebook's code cells.
    file: the name of the notebook.
    files: the content of the files of values that were given, by their names without folders.

    Raises InputError if the other cells are no Python. Raises that of a file that cannot be read if a command names the
    file, or if there is nothing else in the notebook.
    """
    sources = read_cells(cells, file, files)
    read: dict[str, list[Source]] = {}
    errors: dict[str, InputError] = {}
    for name, content in written_files(cells).items():
        if Path(name).suffix.lower() in _READERS:
            try:
                read[name] = read_text(content, f"{file}:{name}", files)
            except InputError as error:
                errors[name] = error
    every = [source for of_file in read.values() for source in of_file] + sources
    named = {Path(name).as_posix() for source in every for name in source.parents}
    for name, unreadable in errors.items():
        if name in named or not any(source.entries for source in every):
            raise unreadable
    packages = installed_by("\n".join(cells))
    return [
        replace(
            source,
            packages=packages | dict(source.packages),
            parents=tuple(name for name in source.parents if Path(name).as_posix() not in read),
        )
        for source in every
    ]


def _decoded(text: str | bytes, name: str) -> str:
    if isinstance(text, str):
        return text
    expect(isinstance(text, bytes | bytearray), name, "its text, as str or bytes", type(text).__name__)
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: expected text in UTF-8, got byte {text[error.start]:#x} at {error.start}") from None


def _content(path: Path) -> str:
    """Return the text of a file, or its beginning if it is too long. Raises InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return _decoded(file.read(_LARGEST + 1), str(path))
    except OSError as error:
        raise InputError(f"{path}: expected a file that can be read, got: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{str(path)!r}: expected the path of a file, got: {error}") from None


def _read_path(path: Path, text: str, files: Mapping[str, Any], depth: int) -> list[Source]:
    """Return the sources of a file, each after the sources on which it builds. Raises InputError.

    A source may build on files beside this one, whose sources are then in the list too. Its `parents` keep only the
    names of files that were not read. A file is not read if it is not there, or if `_PARENTS` files already build on
    one another.

    text: the content of the file.
    files: the content of the files of values that were given, by their names without folders.
    depth: how many files, each building on the next, led to this one; 0 for the file that the caller named.
    """
    before: list[Source] = []
    for source in read_text(text, str(path), files):
        missing = []
        for name in source.parents:
            parent = path.parent / name
            if depth < _PARENTS and parent.is_file():
                before += _read_path(parent, _content(parent), files, depth + 1)
            else:
                missing.append(name)
        before.append(replace(source, parents=tuple(missing)))
    return before
