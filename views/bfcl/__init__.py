"""Function-calling tasks in the style of the Berkeley Function Calling Leaderboard (BFCL), and three graders of
answers.

- correctness: the calls are exactly the needed ones, in any order. A value is read as its documented type before it is
  compared.
- style: JSON types and the spelling of enums and dates are exact, arguments have their names, and the call is bare
  Python.
- conciseness: nothing could be deleted, such as a documented default, an empty or unknown parameter, or a repeat.

An answer without a readable call fails all three. Answers are parsed and never run, so their arguments have to be plain
values. In a task that names a longest length, conciseness is a number instead: it falls as the answer grows to that
length. `load_published` reads a table with the verdicts of such graders on the published answers of many models.
"""

from views.bfcl.graders import REWARDS, Grades, Verdict, grade, grade_all
from views.bfcl.published import GRADERS, Published, draw_models, load_published
from views.bfcl.task import Task, load_task, load_tasks

__all__ = [
    "GRADERS",
    "REWARDS",
    "Grades",
    "Published",
    "Task",
    "Verdict",
    "draw_models",
    "grade",
    "grade_all",
    "load_published",
    "load_task",
    "load_tasks",
]
