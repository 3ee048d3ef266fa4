"""The judgement of a run: the sums over its batches, the findings that follow from them, and the other settings that
were tried on its log.
"""
