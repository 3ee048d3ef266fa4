"""Views of the page: plain data in, what is drawn out."""
