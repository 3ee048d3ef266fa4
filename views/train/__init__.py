"""The chapter Train: the curves of a small policy, trained as the reader sets it, and a small picture per set-up."""

from views.train import cards, controls, panels, play, runs, verdicts, weights, words

__all__ = ["cards", "controls", "panels", "play", "runs", "verdicts", "weights", "words"]
