from gdpo_core.training import advantages as advantages  # shim: the lead removes it
