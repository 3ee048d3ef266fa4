"""Shapes: tables with objects, lists or episodes become a row per answer and a column per reward."""
