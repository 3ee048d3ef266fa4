# What TRL's list of papers gives for GDPO.
from trl import GRPOConfig

training_args = GRPOConfig(multi_objective_aggregation="normalize_then_sum")
