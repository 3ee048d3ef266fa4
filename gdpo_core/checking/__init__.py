"""The check of a configuration, which is read and never run: forms of files, trainers, the traps of frameworks.toml."""
