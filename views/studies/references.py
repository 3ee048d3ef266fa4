"""The addresses that the chapters share: the paper, its authors' code, and the benchmark with the prompts."""

ARXIV = "https://arxiv.org/abs/2601.05242"
REPO = "https://github.com/NVlabs/GDPO"
BFCL = "https://gorilla.cs.berkeley.edu/leaderboard.html"
