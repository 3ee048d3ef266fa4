"""Trainers: what each trainer writes, as the form of its log."""
