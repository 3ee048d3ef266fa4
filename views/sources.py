"""The addresses that the chapters share: the paper, its authors' code, and the benchmark with the prompts."""

PAPER = "https://arxiv.org/abs/2601.05242"
CODE = "https://github.com/NVlabs/GDPO"
DATA = "https://gorilla.cs.berkeley.edu/leaderboard.html"
