"""The addresses that the bar and the chapters share: the paper, its authors' code, and the benchmark with the prompts.

The first entry of SOURCES leads to the chapter that says what computes the page.
"""

PAPER = "https://arxiv.org/abs/2601.05242"
CODE = "https://github.com/NVlabs/GDPO"
DATA = "https://gorilla.cs.berkeley.edu/leaderboard.html"
SOURCES = {"One torch core": "?at=use", "Paper": PAPER, "Code": CODE, "Data": DATA}
