"""Tables: files of any format as tables of polars."""
