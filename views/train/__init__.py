"""The chapter Train: set-ups as small pictures, one of them trained as the reader sets it, and drawn large."""

from views.train import cards, controls, panels, runs, words

__all__ = ["cards", "controls", "panels", "runs", "words"]
