"""`archer doctor`: what this machine offers."""

from __future__ import annotations

from archer.cli.output import write_json, write_lines


def doctor(*, json: bool = False) -> int:
    """Say which device, dtype and threads are used, and whether bfloat16 is safe here.

    Parameters
    ----------
    json
        Print one JSON object instead of lines.
    """
    from archer.doctor import examine

    report = examine()
    if json:
        write_json(report.as_dict())
    else:
        write_lines("\n".join(report.lines()))
    return 0
