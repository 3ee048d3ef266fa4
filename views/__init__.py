"""What is drawn: plain data in, a view out."""
