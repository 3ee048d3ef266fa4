"""The commands of `gdpo`; `gdpo_cli.py` declares their options."""
