"""`archer doctor`: what this machine offers, and whether decoding is right on it."""

from __future__ import annotations

from pathlib import Path

from archer.cli.output import write_json, write_line, write_lines

FAILED = 1
ATTACHED = Path("archer-selftest.json")


def doctor(
    *,
    selftest: bool = False,
    device: str | None = None,
    dtype: str | None = None,
    compile: bool = False,
    shape: str = "llada-8b",
    output: Path = ATTACHED,
    json: bool = False,
) -> int:
    """Say which device, dtype and threads are used, and whether bfloat16 is safe here.

    Parameters
    ----------
    selftest
        Prove that decoding is right on this device and in this dtype; takes minutes.
    device
        Of the self-test, such as cuda:0; the accelerator if there is one.
    dtype
        Of the self-test; bfloat16 on an accelerator, else float32.
    compile
        Check torch.compile as well.
    shape
        Whose layers the self-test times: llada-8b, dream-7b or small.
    output
        Where the self-test leaves its findings, to be attached to a report.
    json
        Print one JSON object instead of lines.
    """
    if selftest:
        from archer.selftest import Plan

        return _selftest(Plan(device, dtype, compile, shape), output, json=json)
    from archer.doctor import examine

    report = examine()
    if json:
        write_json(report.as_dict())
    else:
        write_lines("\n".join(report.lines()))
    return 0


def _selftest(plan: object, output: Path, *, json: bool) -> int:
    from archer.bench.machine import machine
    from archer.bench.shapes import published
    from archer.model import place
    from archer.runs.files import replace_json
    from archer.selftest import Plan, as_dict, verdict
    from archer.selftest import selftest as checks

    assert isinstance(plan, Plan)
    where = place(plan.device, plan.dtype)
    published(plan.shape)
    findings = []
    for found in checks(plan):
        findings.append(found)
        if not json:
            sign = "ok    " if found.passed else "FAILED"
            write_line(f"{sign}  {found.name}: {found.told} ({found.seconds:.1f} s)")
    told = as_dict(plan, findings, machine(*where))
    replace_json(output, told)
    if json:
        write_json(told)
    else:
        write_line(f"{verdict(findings)} Details: {output}")
    return 0 if told["passed"] else FAILED
