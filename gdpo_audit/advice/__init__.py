"""The advice whether to use GDPO: answers, their reasons, and a verdict, from a report."""
