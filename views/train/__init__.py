"""The chapter Train: a policy of coins, trained as the reader sets it, as curves; the set-ups as small pictures."""

from views.train import cards, controls, panels, play, runs, verdicts, words

__all__ = ["cards", "controls", "panels", "play", "runs", "verdicts", "words"]
