"""The judgement of a run: the sums over its batches, the findings that follow from them, the groups that serve as
examples, and what other settings would make of the same log.
"""
