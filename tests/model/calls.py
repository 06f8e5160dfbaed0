"""Calls as an editor sees them, right ones and wrong ones; read by type checkers, never run.

A wrong call says so at its end.  mypy's strict run over this tree refuses a mark that nothing needs; what
pyright says of the same lines is in tests/model/test_typed_calls.py.
"""

import archer
from archer import Method
from archer.extend import Archer, Saber

PROMPT = "Write a function."


async def calls(model: archer.Model) -> None:
    model.generate(PROMPT)
    model.generate([PROMPT, PROMPT], "archer:8", length=64, n=2, stop="\n", on_error="return")
    model.generate([[5, 7], [4, 4]], Saber(), length="auto", max_length=128)
    model.generate(PROMPT, Method(Saber(), "archer:8"), seed=3)
    model.generate(PROMPT, Method("saber", Archer(radius=4)), settings={"patience": 3})
    model.stream([{"role": "user", "content": "Hello."}], radius=8, watch="placed")
    model.record(PROMPT, temperature=0.7, least=4, chat=False)
    model.infill("def f(x):", "    return y", length=[4], healing=False)
    model.fill("1, {}, 3", length="search")
    engine = model.engine()
    engine.submit(PROMPT, n=3, priority="batch", timeout=2.5, length=16)
    (await engine.submit(PROMPT, length=16)).to_dict()
    async for step in engine.submit(PROMPT):
        assert step.index

    model.generate(PROMPT, lenght=64)  # type: ignore[call-arg]  # wrong
    model.generate(PROMPT, max_tokens=64)  # type: ignore[call-arg]  # wrong
    model.generate(PROMPT, temperature="hot")  # type: ignore[arg-type]  # wrong
    model.generate(PROMPT, seed="a")  # type: ignore[arg-type]  # wrong
    model.generate(PROMPT, on_error="ignore")  # type: ignore[arg-type]  # wrong
    model.generate(PROMPT, 8)  # type: ignore[arg-type]  # wrong
    model.generate(PROMPT, Method(Saber(), 8))  # type: ignore[arg-type]  # wrong
    model.generate(5)  # type: ignore[arg-type]  # wrong
    model.stream(PROMPT, n=2)  # type: ignore[call-arg]  # wrong
    model.record(PROMPT, raduis=8)  # type: ignore[call-arg]  # wrong
    model.infill("a", "b", suffix="c")  # type: ignore[misc]  # wrong
    model.fill("1, {}, 3", watch="argmin")  # type: ignore[arg-type]  # wrong
    engine.submit(PROMPT, lenght=16)  # type: ignore[call-arg]  # wrong
    engine.submit(PROMPT, priority="soon")  # type: ignore[arg-type]  # wrong
    assert (await engine.submit(PROMPT)).txt  # type: ignore[attr-defined]  # wrong
