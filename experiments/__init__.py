"""A language model from nothing under TRL's own GRPOTrainer, rewarded by the three graders of this project."""
