"""The report as HTML: its pictures, its cards, and controls that answer in a browser."""
