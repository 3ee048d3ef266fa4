"""Write docs/board.html, a board of eight answers in a single file, with the command that the documents name.

python -m scripts.make_board
"""

from pathlib import Path

import gdpo_cli

FILE = Path(__file__).resolve().parent.parent / "docs" / "board.html"
EXPLAIN = ("explain", "111", "110", "110", "110", "101", "011", "100", "000", "--html")

if __name__ == "__main__":
    gdpo_cli.main([*EXPLAIN, str(FILE)])
