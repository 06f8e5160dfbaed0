"""`archer report`: runs as one page."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from archer.cli.output import write_line
from archer.errors import BadRequest


def report(
    *runs: Path,
    output: Annotated[Path, Parameter(name=("--output", "-o"))] = Path("report.html"),
) -> int:
    """Turn finished runs into one page with tables, figures and trajectories to watch.

    Args:
        runs: Run folders; one with several tasks inside counts as several runs.
        output: The page.
    """
    from archer.files import is_there, replace_file
    from archer.runs.comparison import open_run
    from archer.runs.folder import MANIFEST
    from archer.runs.report import runs_page
    from archer_studies.paper.main import score_in_paper

    if not runs:
        raise BadRequest("Give at least one run folder; `archer eval` makes one.")
    folders = []
    for path in runs:
        inside = sorted(each.parent for each in path.glob(f"*/{MANIFEST}"))
        folders += inside if inside and not is_there(path / MANIFEST) else [path]
    command = shlex.join(["archer", "report", *map(str, runs), "-o", str(output)])
    page = runs_page([open_run(path) for path in folders], command, score_in_paper)
    replace_file(output, page.encode(errors="backslashreplace"))
    write_line(str(output))
    return 0
