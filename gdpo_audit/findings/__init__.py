"""The judgement of a run: the sums over its batches, and the findings that follow from them. Beside these, the groups
that serve as examples, and what other settings would make of the same log.
"""
