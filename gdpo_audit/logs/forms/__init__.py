"""Forms: the words in which the reading of a log is written down, and the rows that follow from a form."""
