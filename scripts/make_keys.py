"""Write gdpo_core/checking/verl_keys.py, the keys that a release of verl has: `python -m scripts.make_keys WHEEL`.

A key counts if one of verl's own files of values in verl/trainer/config has it, or one of the dataclasses of its
configuration has a field of that name; a dataclass may stand at several places, so that its fields have no section.
"""

import ast
import sys
import textwrap
import zipfile
from pathlib import Path

import yaml

from gdpo_core.checking.readers.sources import flatten

TO = Path(__file__).resolve().parent.parent / "gdpo_core" / "checking" / "verl_keys.py"
HEAD = '''"""The keys that verl {version} has, as scripts/make_keys.py read them in its wheel."""

VERSION = "{version}"
_SECTIONS = """
{sections}
"""
_KEYS = """
{keys}
"""
_FIELDS = """
{fields}
"""
SECTIONS = frozenset(_SECTIONS.split())  # the sections with which its keys begin
KEYS = frozenset(_KEYS.split())  # the keys of verl/trainer/config, with their sections, whose last part is no field
FIELDS = frozenset(_FIELDS.split())  # the fields of the dataclasses of its configuration, which have no section
'''


def keys_of(text: str) -> set[str]:
    """Return the keys of a file of values, with their sections; none if it holds no mapping."""
    value = yaml.safe_load(text)
    return {key for key, _ in flatten(value, "")} if isinstance(value, dict) else set()


def fields_of(text: str) -> set[str]:
    """Return the names of the fields of the classes in a Python module."""
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    fields = [node.target for kind in classes for node in kind.body if isinstance(node, ast.AnnAssign)]
    return {target.id for target in fields if isinstance(target, ast.Name)}


def _filled(text: str) -> str:
    return textwrap.fill(text, width=118, break_on_hyphens=False, break_long_words=False)


def main(wheel: str) -> None:
    """Write the module.

    wheel: the path of verl's wheel, whose name has the version.
    """
    keys: set[str] = set()
    fields: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("verl/trainer/config/") and name.endswith(".yaml"):
                section = Path(name).relative_to("verl/trainer/config").parent.name
                keys |= {key for key in keys_of(archive.read(name).decode()) if section == ""}
                fields |= {key.rpartition(".")[2] for key in keys_of(archive.read(name).decode()) if section}
            elif "config" in name and name.endswith(".py"):
                fields |= fields_of(archive.read(name).decode())
    sections = {key.partition(".")[0] for key in keys if "." in key}
    keys = {key for key in keys if key.rpartition(".")[2] not in fields}
    names = {"sections": sections, "keys": keys, "fields": fields}
    written = {piece: _filled(" ".join(sorted(those))) for piece, those in names.items()}
    TO.write_text(HEAD.format(version=Path(wheel).name.split("-")[1], **written), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
