"""Write data/gallery.json: the small pictures of the chapter Train, which would take seconds to train at every visit.

python scripts/make_gallery.py
"""

import json
from pathlib import Path

from gdpo_core import bfcl
from gdpo_core.scenarios import load_scenarios
from views.train import cards
from views.train.controls import pass_rates

DATA = Path(__file__).resolve().parent.parent / "data"


def main() -> None:
    """Train everything once, and keep what the pictures show."""
    rates = pass_rates([grades.vector for grades in bfcl.grade_all(bfcl.load_tasks(DATA / "tasks")[0])])
    made = cards.build_gallery(load_scenarios(DATA / "scenarios.json"), rates)
    text = json.dumps(made, separators=(",", ":"), allow_nan=False) + "\n"
    (DATA / "gallery.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
