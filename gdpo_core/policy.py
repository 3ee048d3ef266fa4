from gdpo_core.training import TrainingRun as TrainingRun  # shim: the lead removes it
from gdpo_core.training import mean_field as mean_field  # shim: the lead removes it
from gdpo_core.training import train as train  # shim: the lead removes it
