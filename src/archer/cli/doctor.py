"""`archer doctor`: what this machine offers, and whether decoding is right on it."""

from pathlib import Path

from archer.cli.output import Json, emit, write_json, write_line
from archer.errors import BadRequest

FAILED = 1
ATTACHED = Path("archer-selftest.json")


def doctor(
    *,
    selftest: bool = False,
    device: str | None = None,
    dtype: str | None = None,
    compile: bool = False,
    timing: bool = False,
    shape: str | None = None,
    output: Path | None = None,
    json: Json = False,
) -> int:
    """Say which device, dtype and threads are used, what is safe here, and which weights multiply fastest.

    Args:
        selftest: Check that decoding is right on this device and in this dtype.
        device: Device of the self-test, such as cuda:0 [default: the accelerator if there is one].
        dtype: Dtype of the self-test [default: bfloat16 on an accelerator, else float32].
        compile: Check torch.compile as well.
        timing: Time full and cached steps, too, which takes minutes on a processor.
        shape: Whose layers are timed, such as dream-7b or llada-moe-7b [default: llada-8b].
        output: Where the self-test writes its findings, to attach to an issue [default:
            archer-selftest.json].
    """
    if selftest:
        from archer.checks.selftest import STEP_SHAPE, SelftestPlan

        if shape is not None and not timing:
            raise BadRequest("--shape says whose layers are timed: add --timing to it.")
        plan = SelftestPlan(device, dtype, compile, timing, shape or STEP_SHAPE)
        return _selftest(plan, output or ATTACHED, json=json)
    options = {"device": device, "dtype": dtype, "compile": compile or None}
    options |= {"timing": timing or None}
    for name, value in (options | {"shape": shape, "output": output}).items():
        if value is not None:
            raise BadRequest(f"--{name} is an option of the self-test: add --selftest to it.")
    from archer.checks.doctor import examine

    report = examine()

    def show() -> None:
        facts = report.facts()
        width = max(map(len, facts)) + 2
        for name, value in facts.items():
            write_line(f"{name:<{width}}{value}", hanging=width)
        for refusal in (report.bf16.refusal, report.products.refusal):
            if refusal is not None:
                write_line("")
                write_line(refusal)

    return emit(report.to_dict(), show, json=json)


def _selftest(plan: object, output: Path, *, json: bool) -> int:
    from archer.checks.selftest import SelftestPlan, to_dict, verdict
    from archer.checks.selftest import selftest as checks
    from archer.costs.shapes import published
    from archer.errors import DiskFault
    from archer.files import check_target, replace_json
    from archer.machine.description import describe_torch
    from archer.machine.devices import place

    assert isinstance(plan, SelftestPlan)
    where = place(plan.device, plan.dtype)
    published(plan.shape)
    check_target(output)
    findings = []
    for finding in checks(plan):
        findings.append(finding)
        if not json:
            sign = "ok      " if finding.passed else "FAILED  "
            line = f"{sign}{finding.name}: {finding.report} ({finding.seconds:.1f} s)"
            write_line(line, hanging=len(sign))
    result = to_dict(plan, findings, describe_torch(*where))
    try:
        replace_json(output, result)
    except DiskFault:
        write_json(result)
        raise
    emit(result, lambda: write_line(f"{verdict(findings)} Details: {output}"), json=json)
    return 0 if result["passed"] else FAILED
