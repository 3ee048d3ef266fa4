"""The check of a configuration, which is read and never run: its files, its trainer, and the traps that it holds."""
