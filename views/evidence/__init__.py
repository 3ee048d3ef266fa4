"""The chapter Evidence: real prompts, exact counts, a small language model, the paper's tables."""

from views.evidence import about, counting, forecasts, opened, paper, pushed, sentences, sizes, squares, trained

__all__ = ["about", "counting", "forecasts", "opened", "paper", "pushed", "sentences", "sizes", "squares", "trained"]
