"""Tools that all rooms and packages use: errors, checks of input, numbers as text, HTML."""
