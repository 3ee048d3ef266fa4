"""The chapter Evidence: 963 real prompts, what each method ties of them, and which answer comes first.

What the cells show: sentences.py says it, squares.py draws the prompts, opened.py one of them; sizes.py, counting.py,
paper.py and about.py are what lies further down.
"""
