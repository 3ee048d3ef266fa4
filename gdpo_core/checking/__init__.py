"""What a configuration will run, read and never run: forms of files, trainers, and the traps of frameworks.toml."""
