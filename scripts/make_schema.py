"""Write the schemas of what `gdpo audit --json` and `gdpo compare --json` write, from the types of the report.

python -m scripts.make_schema
"""

import json
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from gdpo_audit.findings.findings import IDS
from gdpo_audit.report.comparison import Changes
from gdpo_audit.report.document import ReportPart, ReportsPart

DOCS = Path(__file__).resolve().parent.parent / "docs"
UNSET_MEMBERS = [member.name for member in fields(ReportPart) if member.default is msgspec.UNSET]

OPTIONAL = {"GatePart": ("at_most",)}  # by type, the members that are written only where they are true


def schema(title: str, *types: type) -> dict[str, Any]:
    """Return the JSON schema, with this title, of a value that has one of these types."""
    either, types_by_name = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for name, described in types_by_name.items():
        described["description"] = cleandoc(described["description"])  # as Python itself does from 3.13 on
        # A member is written where it has its default too, unless that is UNSET or the member stands in OPTIONAL.
        optional = UNSET_MEMBERS if name == "ReportPart" else OPTIONAL.get(name, ())
        described["required"] = [name for name in described["properties"] if name not in optional]
        for member in described["properties"].values():
            member.pop("default", None)
    if "Finding" in types_by_name:
        types_by_name["Finding"]["properties"]["id"]["examples"] = list(IDS)
    if "StepPart" in types_by_name:
        types_by_name["StepPart"]["additionalProperties"] = {"type": ["number", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "Members may be added within a schema. Where one goes or changes its meaning, the number grows.",
        "anyOf": list(either),
        "$defs": with_nulls(types_by_name),
    }


def with_nulls(schema: Any) -> Any:
    """Return a schema, or a part of one, in which each number that is `MaybeNaN` in Python may be null."""
    if isinstance(schema, list):
        return [with_nulls(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("nan") == "null":
        described = {key: value for key, value in schema.items() if key not in ("nan", "type")}
        return described | {"anyOf": [{"type": "number"}, {"type": "null"}]}
    return {key: with_nulls(value) for key, value in schema.items()}


def files() -> dict[Path, str]:
    """Return the text of each schema's file, by the path of the file."""
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
