"""The board, a widget: a group of answers, their marks, and what two methods make of them. Needs the extra `board`."""

from gdpo_core.shared.extras import needs

with needs("board", "gdpo_core.board"):
    from gdpo_core.board.board import Board

__all__ = ["Board"]
