"""The arithmetic below the methods: batches of groups, their statistics, and ties of pairs."""
