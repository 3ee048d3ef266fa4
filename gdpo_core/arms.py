from gdpo_core.training import mean_field_arms as mean_field_arms  # shim: the lead removes it
from gdpo_core.training import train_arms as train_arms  # shim: the lead removes it
