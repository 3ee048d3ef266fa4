"""The judgement of a run: the sums over its batches, the findings that follow from them, and the groups that serve as
examples. Here stand also the figures of other settings on the same log.
"""
