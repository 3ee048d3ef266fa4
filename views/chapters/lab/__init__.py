"""The chapter Lab: the board with the answers to a task, and what lies below the board."""
