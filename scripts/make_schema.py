"""Write the schemas of what `gdpo audit --json` and `gdpo compare --json` write, from the types of the report.

python -m scripts.make_schema
"""

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from gdpo_audit.findings.findings import IDS
from gdpo_audit.json_types import ReportPart, ReportsPart
from gdpo_audit.report.comparison import Changes

DOCS = Path(__file__).resolve().parent.parent / "docs"


def schema(title: str, *types: type) -> dict[str, Any]:
    """Return the JSON schema of a value that has one of these types."""
    either, parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for of, part in parts.items():
        part["description"] = cleandoc(part["description"])  # as Python itself does from 3.13 on
        # A default is written too.
        optional = ReportPart.__optional_keys__ if of == "ReportPart" else ()
        part["required"] = [name for name in part["properties"] if name not in optional]
    if "FindingPart" in parts:
        parts["FindingPart"]["properties"]["id"]["examples"] = list(IDS)
    if "StepPart" in parts:
        parts["StepPart"]["additionalProperties"] = {"type": ["number", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "Members may be added within a schema. Where one goes or changes its meaning, the number grows.",
        "anyOf": list(either),
        "$defs": parts,
    }


def files() -> dict[Path, str]:
    """Return what each file of a schema should hold, by the path of the file."""
    schemas = {
        "report": schema("gdpo audit --json, schema 1", ReportPart, ReportsPart),
        "compare": schema("gdpo compare --json, schema 1", Changes),
    }
    return {
        DOCS / f"{name}.schema.json": json.dumps(made, indent=2, ensure_ascii=False) + "\n"
        for name, made in schemas.items()
    }


if __name__ == "__main__":
    for file, text in files().items():
        file.write_text(text, encoding="utf-8")
