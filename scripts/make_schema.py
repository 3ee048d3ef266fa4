"""Write docs/report.schema.json, the schema of what `gdpo audit --json` writes, from the types of the report."""

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from gdpo_core.runs.audit_report import ReportPart, ReportsPart

FILE = Path(__file__).resolve().parent.parent / "docs" / "report.schema.json"


def schema() -> dict[str, Any]:
    """The JSON schema of one report, or of several together."""
    either, parts = msgspec.json.schema_components([ReportPart, ReportsPart], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = cleandoc(part["description"])  # as Python itself does from 3.13 on
    parts["StepPart"]["additionalProperties"] = {"type": ["number", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gdpo audit --json, schema 1",
        "description": "Members may be added within a schema. Where one goes or changes its meaning, the number grows.",
        "anyOf": list(either),
        "$defs": parts,
    }


def text() -> str:
    """The file as it should be."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
