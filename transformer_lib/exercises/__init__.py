"""Exercises that mark themselves: `check` an answer, `use` it inside the library.

What ships with the library are values, no solutions: for some public inputs, the right output and the output of every
known wrong answer (`transformer_lib/exercise_data/`). `check` compares what an answer returns with each of them.
"""

from transformer_lib.exercises.checking import check, example
from transformer_lib.exercises.feedback import Feedback
from transformer_lib.exercises.swapping import Swap, in_use, reset, use

__all__ = ["Feedback", "Swap", "check", "example", "in_use", "reset", "use"]
