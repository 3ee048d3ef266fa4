"""The facts of a run, which all findings read, and the claims on which they rest."""
