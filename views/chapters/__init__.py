"""The five chapters of the page, a folder each."""
