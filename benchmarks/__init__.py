"""What the page and the library cost in time, against other ways to write the same: `make bench`."""
