"""The table of what can be asked about a text: name -> function of the text and of plain facts."""

from collections.abc import Callable
from typing import Any

from . import answers, code, lineage, puzzles

OPERATIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        code.mbpp_published,
        code.mbpp_repaired,
        code.humaneval_published,
        code.humaneval_repaired,
        code.last_function,
        code.livecodebench_published,
        code.livecodebench_repaired,
        code.pocket_repaired,
        answers.math_answer,
        answers.finqa_answer,
        answers.finqa_accepted,
        answers.pubmedqa_answer,
        answers.label,
        answers.math_equal,
        answers.gsm8k_answer,
        answers.gsm8k_right,
        answers.infilled_line,
        puzzles.countdown_expression,
        puzzles.countdown_reached,
        puzzles.countdown_steps,
        puzzles.countdown_stepped,
        puzzles.sudoku_answer,
        puzzles.grid_answer,
        lineage.lineage_answer,
        lineage.same_in_lineage,
    )
}
