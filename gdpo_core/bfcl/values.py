from gdpo_core.bfcl.task import mistyped as mistyped  # shim: the lead removes it
