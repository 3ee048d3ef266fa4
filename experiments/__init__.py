"""A small language model, trained from nothing by TRL's own GRPOTrainer and rewarded by the three graders of this
project.
"""
