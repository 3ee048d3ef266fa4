"""The notebook that audits a run in TRL: its code compiles and names what there is. `make parity-trainer` runs it."""

import ast
import json
from pathlib import Path

from gdpo_core.frameworks import FRAMEWORKS

FILE = Path(__file__).parents[1] / "examples" / "audit_in_trl.ipynb"
CELLS = json.loads(FILE.read_text("utf-8"))["cells"]


def code(cell) -> str:
    """Return the Python of a cell, without the lines that only a notebook understands."""
    lines = cell["source"] if cell["cell_type"] == "code" else []
    return "".join(line for line in lines if not line.startswith(("%", "!")))


def test_the_code_compiles_and_the_line_that_is_changed_is_that_of_trl():
    programs = [ast.parse(code(cell)) for cell in CELLS]
    keywords = [node for program in programs for node in ast.walk(program) if isinstance(node, ast.keyword)]
    changed = [f'{node.arg}="{node.value.value}"' for node in keywords if node.arg == "multi_objective_aggregation"]
    logged = {f"{node.arg}={ast.unparse(node.value)}" for node in keywords}
    assert len(changed) == 1 and changed[0] in FRAMEWORKS["trl"].lines.switch_to_gdpo
    assert {"log_completions=True", "logging_steps=1"} <= logged


def test_its_stored_outputs_are_those_of_both_methods_and_of_no_machine():
    outputs = ["".join(output["text"]) for cell in CELLS for output in cell.get("outputs", ())]
    first, second, compared = outputs
    assert "The logged advantages are GRPO as TRL computes it" in " ".join(first.split())
    assert "The logged advantages are GDPO as TRL computes it" in " ".join(second.split())
    assert "the runs differ in method" in " ".join(compared.split())
    assert not [text for text in outputs if "/" in text and ("/tmp" in text or "/home" in text or "\x1b" in text)]
