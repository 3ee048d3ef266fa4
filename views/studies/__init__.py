"""Scenarios, the paper's results and addresses: files that several chapters show."""
