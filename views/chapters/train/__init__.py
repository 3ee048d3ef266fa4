"""The chapter Train: the curves of a small policy, trained as the reader sets it, and a small picture per set-up."""

from views.chapters.train import controls, gallery, other_weights, panels, play, runs, train_words, verdicts

__all__ = ["controls", "gallery", "other_weights", "panels", "play", "runs", "train_words", "verdicts"]
