"""Cases: problems that only Saber or only Archer solved, where they part, and both trajectories to watch."""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from archer.pages.page import Presented
from archer.pages.player import player_data
from archer.pages.tables import Field, table_of
from archer.results.trace import first_difference
from archer.runs.statistics import Pairs
from archer.runs.workspace import Arm, Workspace
from archer.tasks.base import Sample, Task
from archer.tasks.grading import extracted_or_nothing
from archer.tasks.reader import open_readers
from archer_studies.probes.trajectories import DecodedProblem, decoded_again
from archer_studies.study import Measured, Row

TITLE = "Cases"
ABOUT = "Problems that only Saber or only Archer solves, to watch"
RADIUS = 8
MOST = 6
METHODS = ("saber", "archer")
LINE_END = " ¶ "


def measure(workspace: Workspace) -> Measured:
    arms = {"saber": workspace.arm("saber"), "archer": workspace.arm("archer", radius=RADIUS)}
    only = {method: exclusive(arms, method) for method in METHODS}
    counts = {f"only_{method}": len(keys) for method, keys in only.items()}
    chosen = alternating(only["saber"], only["archer"], MOST)
    watched = {method: dict(decoded_again(workspace, arms[method], chosen)) for method in METHODS}
    task, samples = workspace.open(), {str(each.id): each for each in workspace.samples()}
    rows: list[Row] = [
        {"kind": "counts", **counts, "p": Pairs(*(arms[each].solved() for each in METHODS)).p}
    ]
    programs = _programs(task, samples, watched, chosen)
    for key in chosen:
        both = [watched[method][key] for method in METHODS]
        rows.append(
            {
                "kind": "case",
                "problem": key,
                "solved_by": "saber" if key in only["saber"] else "archer",
                "diverges": first_difference(both[0].states, both[1].states),
                "updates": [each.completion.updates for each in both],
                "programs": programs[key],
                "players": [player_data(each.trajectory) for each in both],
            }
        )
    return Measured(len(arms["saber"].keys), rows, {"radius": RADIUS, "most": MOST})


def _programs(
    task: Task,
    samples: Mapping[str, Sample],
    watched: Mapping[str, Mapping[str, DecodedProblem]],
    chosen: Sequence[str],
) -> dict[str, dict[str, str]]:
    """What each method wrote, by problem and method, read in a confined process."""
    with open_readers() as readers:
        confined = task.reading_by(readers.read)
        return {
            key: {
                method: extracted_or_nothing(
                    confined, watched[method][key].completion.text or "", samples[key]
                )
                for method in METHODS
            }
            for key in chosen
        }


def exclusive(arms: Mapping[str, Arm], method: str) -> list[str]:
    """Problems that this arm passed and no other did."""
    own = arms[method]
    others = [arm for name, arm in arms.items() if name != method]
    return [
        key for key in own.keys if own.passed(key) and not any(arm.passed(key) for arm in others)
    ]


def alternating(first: Sequence[str], second: Sequence[str], most: int) -> list[str]:
    """The first few of both, in turn."""
    mixed = chain.from_iterable(zip_longest(first, second))
    return [key for key in mixed if key is not None][:most]


def present(result: Mapping[str, Any]) -> Presented:
    counts, *cases = result["rows"]
    table = table_of(
        f"Problems that only one method solved, {len(cases)} of "
        f"{counts['only_saber'] + counts['only_archer']}; n = {result['n']}",
        (
            Field("problem"),
            Field("solved_by", "solved by"),
            Field("diverges", "first different update"),
            Field("", "updates of Saber", of=lambda case: case["updates"][0]),
            Field("", "updates of Archer", of=lambda case: case["updates"][1]),
            Field("", "Saber's program", of=lambda case: _one_line(case["programs"]["saber"])),
            Field("", "Archer's program", of=lambda case: _one_line(case["programs"]["archer"])),
        ),
        cases,
        [
            f"Only Saber solved {counts['only_saber']}, only Archer (K={result['settings']['radius']}) "
            f"{counts['only_archer']}: exact McNemar p = {counts['p']:.2f}.",
            "Lines of a program are separated by ¶.",
        ],
    )
    players = {
        f"{case['problem']}: Saber and Archer, solved by {case['solved_by']}": case["players"]
        for case in cases
    }
    notes = () if cases else ("No problem was solved by one of the two methods alone.",)
    return Presented([table], notes=notes, players=players)


def _one_line(program: str) -> str:
    return LINE_END.join(line.strip() for line in program.splitlines() if line.strip())
