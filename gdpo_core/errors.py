# shim: the lead removes it
from gdpo_core._errors import InputError, expect, expect_index, is_whole  # noqa: F401
