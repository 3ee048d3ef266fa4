"""The chapters of the page, as functions from plain data to what app.py's cells draw, and the parts of the server."""
