"""Views of the page: functions from plain data to what the cells of app.py draw."""
