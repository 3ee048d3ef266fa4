"""Experiments with a small language model, made from nothing. First it imitated answers; then TRL's own GRPOTrainer
trained it, with the three graders of this project as rewards. The logs are used to judge forecasts of runs, and bounds
on the rewards' shares of the update.
"""
