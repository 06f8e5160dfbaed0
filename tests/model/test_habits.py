"""Habits that people bring from other libraries: names of options, provenance, errors in batches, async."""

import asyncio
import json
import pickle
import re
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import archer
from archer import Method
from archer.decoders.scheduled import Scheduled
from archer.engine.engine import Engine
from archer.errors import BadRequest, Cancelled, NonFinite, PassFailed, TooLong, numbered
from archer.extend import Archer, Saber
from archer.methods.catalogue import ALIASES, COMMON, DECODERS, HABITS, POLICIES
from archer.model import Model, load
from archer.request.options import InfillOptions, MethodSettings, StreamOptions
from archer.results.completion import Completion
from conftest import REPOSITORY
from server.running import on_a_thread
from support.folders import make_llada

PROMPT = "Write a function to add all numbers in nums.\nassert solve([1, 2]) == 3\ndef solve(nums):"
OTHER = "Write a function to count the words in s.\nassert solve('a b') == 2\ndef solve(s):"


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket", device="cpu")


def test_habit_max_tokens_gets_the_name_to_use(pocket: Model) -> None:
    for habit, name in HABITS.items():
        asked: dict[str, Any] = {habit: 8}
        with pytest.raises(BadRequest, match=f"{habit!r}. Here that is {name}. It takes: "):
            pocket.request(PROMPT, **asked)


def test_habit_of_guessing_a_name_is_answered_from_the_list_that_is_shown(pocket: Model) -> None:
    with pytest.raises(BadRequest, match=r"Did you mean 'length'\?"):
        pocket.request(PROMPT, lenght=8)  # type: ignore[call-arg]
    with pytest.raises(BadRequest, match=r"does not use the setting 'ordre'. It takes: "):
        pocket.request(PROMPT, ordre=8)  # type: ignore[call-arg]


@pytest.mark.parametrize("seed", ["a", 1.5, True, 10**30, None, np.float64(2)])
def test_habit_of_any_seed_is_refused(pocket: Model, seed: Any) -> None:
    with pytest.raises(BadRequest, match=r"A seed is a whole number from"):
        pocket.request(PROMPT, seed=seed)


def test_habit_of_numpy_seeds_is_fine(pocket: Model) -> None:
    assert type(pocket.request(PROMPT, seed=np.int64(7)).seed) is int  # type: ignore[arg-type]


def test_editors_know_every_setting() -> None:
    parts = (COMMON, *DECODERS.values(), *POLICIES.values())
    known = set().union(*(part.settings for part in parts)) | ALIASES.keys()
    assert MethodSettings.__annotations__.keys() == known - {"n"}
    assert {"seed", "suffix", "prefill", "settings"} <= StreamOptions.__annotations__.keys()
    assert {"n", "stop", "on_error", "gap"} <= InfillOptions.__annotations__.keys()


def test_habit_of_asking_a_result_how_it_was_made(pocket: Model) -> None:
    (done,) = pocket.generate(PROMPT, "archer:4", length=16, seed=3)
    told = json.loads(json.dumps(done.to_dict()))
    assert told["method"] == "archer:4"
    assert told["settings"]["radius"] == 4
    assert told["settings"]["n"] == 2
    assert told["seed"] == 3
    assert told["model"] == "pocket"
    assert told["model_digest"] == pocket.digest
    assert told["dtype"] == "float32"
    assert told["weights_version"] == 0
    assert told["archer"] == archer.__version__
    assert "method" not in done.to_dict(provenance=False)
    (other,) = pocket.generate(PROMPT, radius=8, length=16)
    assert other.to_dict()["method"] == "archer"


def test_two_checkpoints_have_two_digests(tmp_path: Path, pocket: Model) -> None:
    folders = [make_llada(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    one, two = (load(folder, device="cpu") for folder in folders)
    assert len({one.digest, two.digest, pocket.digest}) == 3
    assert load(folders[0], device="cpu").digest == one.digest


def recipes(model: Model) -> Iterator[Completion]:
    yield from model.generate([PROMPT, OTHER], length=16)
    yield from model.generate(PROMPT, "saber+age:3", n=3, temperature=0.8, seed=5, length=16)
    yield from model.generate(PROMPT, Method(Saber(watch="placed"), Archer(radius=2)), length=16)
    yield from model.generate(PROMPT, Scheduled(steps=4), length=16)
    yield from model.generate(PROMPT, "archer", radius=float("inf"), guidance=0.5, length=16)
    yield from model.infill("def f(nums):\n    return ", "(nums)\n", length=3)
    yield from model.generate(PROMPT, suffix="\n\n", length=4, healing=False)
    yield from model.generate(PROMPT, prefill="    retur", length=8)
    yield from model.generate(PROMPT, prefill="    return", length="auto", max_length=32)
    yield from model.fill("def f(nums):\n    return {}(nums)\n", max_length=8)
    yield from model.generate([{"role": "user", "content": PROMPT}], "archer-cut", length="auto")
    yield from model.generate(PROMPT, stop="return", length=8)
    yield from model.generate(PROMPT, choices=["    return 1", "    return 22"], length=8)
    yield from model.generate(PROMPT, regex="[a-z ]{1,10}", prefill="ab", chat=False, length=8)


def test_habit_of_making_a_result_again(pocket: Model) -> None:
    for done in recipes(pocket):
        names: dict[str, Any] = {}
        exec(done.recipe(), names)
        again = names["done"]
        assert (again.tokens, again.text) == (done.tokens, done.text), done.recipe()
        for asked in ("settings", "choices", "regex", "stop"):
            assert again.to_dict().get(asked) == done.to_dict().get(asked)


def test_habit_of_looking_at_whatever_is_there(pocket: Model) -> None:
    """A name typed alone shows one line, not pages of numbers."""
    stream, engine = pocket.stream(PROMPT, length=8), pocket.engine()
    assert repr(stream) == "<Stream of 1 prompts by 'archer-doubt', 0 ended>"
    assert repr(engine) == "<Engine of 'pocket', 0 running, 0 waiting>"
    first = next(iter(stream))
    assert repr(first) == "Step(0, rows (0,), full: 2 accepted)"
    small = load("pocket", device="cpu", quantize="int8")
    assert repr(small).endswith("float32 with int8 weights on cpu)")


def test_a_copy_keeps_how_it_was_made_and_has_no_recipe(pocket: Model) -> None:
    (done,) = pocket.generate(PROMPT, length=8)
    copy = pickle.loads(pickle.dumps(done))
    assert copy.to_dict() == done.to_dict()
    with pytest.raises(BadRequest, match=r"does not know its request, so there is no recipe"):
        copy.recipe()


def test_habit_of_one_bad_prompt_among_many(pocket: Model) -> None:
    long = PROMPT * 200
    mixed: Any = [PROMPT, [5, "x"]]
    given: Any = [PROMPT, archer.Fill(("a", "b"))]
    with pytest.raises(BadRequest, match=r"^Prompt 2 of 3: The prompt is empty."):
        pocket.generate([PROMPT, "", OTHER])
    with pytest.raises(TooLong, match=r"^Prompt 3 of 3: A prompt of "):
        pocket.generate([PROMPT, OTHER, long])
    with pytest.raises(BadRequest, match=r"^Prompt 2 of 2: A prompt of ids holds 'x'"):
        pocket.generate(mixed)
    with pytest.raises(BadRequest, match=r"^The prompt is empty"):
        pocket.generate([""])
    with pytest.raises(BadRequest, match=r"^Prompt 2 of 2: A text with gaps says itself"):
        pocket.generate(given, suffix=["x", "y"])
    with pytest.raises(BadRequest, match=r"^Prompt 1 of 2: The length of a gap"):
        pocket.fill(["a {} b", "c {} d"], length=0)


def test_habit_of_keeping_the_good_answers(pocket: Model) -> None:
    prompts: Any = [PROMPT, "", OTHER, PROMPT * 200, [5, "x"]]
    done = pocket.generate(prompts, on_error="return", length=16, n=2)
    assert [each.finish_reason == "error" for each in done[::2]] == [False, True, False, True, True]
    assert done[::2] == done[1::2]
    good = pocket.generate([PROMPT, OTHER], length=16)
    assert [done[0].tokens, done[4].tokens] == [each.tokens for each in good]
    assert str(done[2].error).startswith("Prompt 2 of 5: The prompt is empty.")
    assert "of 5: A prompt of " in str(done[6].error)
    assert pocket.generate("", on_error="return")[0].error == str(refusal(pocket, ""))


def refusal(model: Model, prompt: str) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        model.generate(prompt)
    return caught.value


def test_what_is_wrong_for_all_prompts_is_raised_all_the_same(pocket: Model) -> None:
    with pytest.raises(BadRequest, match=r"There is no method 'sabre'"):
        pocket.generate([PROMPT, OTHER], "sabre", on_error="return")
    with pytest.raises(BadRequest, match='on_error is "raise" or "return", not \'ignore\''):
        pocket.generate(PROMPT, on_error="ignore")  # type: ignore[arg-type]


class Failing(Scheduled):
    """Raises for prompts of one length."""

    fails_at = 0

    def step(self, state: Any, logits: Any) -> Any:
        if state.prompt.columns == self.fails_at:
            raise RuntimeError("by design")
        return super().step(state, logits)


def test_an_error_while_decoding_names_its_prompt(
    pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "fails_at", len(pocket.encode(OTHER)))
    method = Method(Failing(), length=8)
    with pytest.raises(PassFailed, match=r"^Prompt 2 of 3: "):
        pocket.generate([PROMPT, OTHER, PROMPT], method)
    done = pocket.generate([PROMPT, OTHER, PROMPT], method, on_error="return")
    assert [each.finish_reason == "error" for each in done] == [False, True, False]
    assert "by design" in str(done[1].error)
    assert done[1].prompt_tokens == len(pocket.encode(OTHER))


def test_memory_that_is_not_there_is_an_error_of_its_prompt(pocket: Model) -> None:
    done = pocket.generate([PROMPT, OTHER], length=16, memory=1, on_error="return")
    assert all("for keys and values" in str(each.error) for each in done)
    with pytest.raises(BadRequest, match=r"^Prompt 1 of 2: This request needs"):
        pocket.generate([PROMPT, OTHER], length=16, memory=1)


def test_errors_with_fields_keep_them() -> None:
    error = NonFinite(3, "full")
    assert numbered(error, 1, 4) is error
    assert error.__notes__ == ["This was prompt 2 of 4."]


def test_habit_of_awaiting_an_answer(pocket: Model) -> None:
    async def both() -> tuple[list[Completion], list[Completion]]:
        async with pocket.engine(budget=256) as engine:
            one = await asyncio.gather(
                *(asyncio.ensure_future(ask(engine, each)) for each in (PROMPT, OTHER))
            )
            several = await engine.submit(PROMPT, length=16, n=3, temperature=0.5).samples()
        return list(one), several

    async def ask(engine: Engine, prompt: str) -> Completion:
        return await engine.submit(prompt, length=16)

    answers, samples = on_a_thread(lambda: asyncio.run(both()))
    plain = pocket.generate([PROMPT, OTHER], length=16)
    assert [each.tokens for each in answers] == [each.tokens for each in plain]
    drawn = pocket.generate(PROMPT, length=16, n=3, temperature=0.5)
    assert [each.tokens for each in samples] == [each.tokens for each in drawn]


def test_fastapi_in_ten_lines() -> None:
    """The code of the page, as a client of it finds it."""
    page = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python no-run\n(from contextlib.*?)```", page, re.DOTALL)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 14
    names: dict[str, Any] = {}
    exec(code, names)
    with TestClient(names["app"]) as client:
        reply = client.post("/answer", params={"prompt": PROMPT}).json()
    assert "return" in reply["text"]
    assert reply["method"] == "archer-doubt"


def test_habit_of_async_for(pocket: Model) -> None:
    async def steps() -> list[Any]:
        engine = pocket.engine(budget=256)
        found = [step.after.response.tolist() async for step in engine.submit(PROMPT, length=16)]
        engine.close()
        return found

    plain = [step.after.response.tolist() for step in pocket.stream(PROMPT, length=16)]
    assert on_a_thread(lambda: asyncio.run(steps())) == plain


def test_habit_of_cancelling_a_task(pocket: Model) -> None:
    """Wherever the task is: before the request has begun, waiting for it, or busy between its steps."""

    async def cancelled() -> None:
        async with pocket.engine(budget=256) as engine:
            for wait in (waited, watched, busy):
                handle = engine.submit(PROMPT, "llada-confidence", length=400, steps=8000)
                task = asyncio.create_task(wait(handle))
                await anext(aiter(stepping(handle)))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                with pytest.raises(Cancelled):
                    await asyncio.to_thread(handle.result)

    async def stepping(handle: Any) -> AsyncIterator[None]:
        """Until the request runs, and at least until the task has begun to wait for it."""
        await asyncio.sleep(0.005)
        while handle._job.walk is None:
            await asyncio.sleep(0.005)
        yield

    async def waited(handle: Any) -> None:
        await handle

    async def watched(handle: Any) -> None:
        async for _ in handle:
            await asyncio.sleep(0)

    async def busy(handle: Any) -> None:
        async for _ in handle:
            await asyncio.sleep(3600)

    on_a_thread(lambda: asyncio.run(cancelled()))


def test_an_awaited_error_is_raised(pocket: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "fails_at", len(pocket.encode(PROMPT)))

    async def failing(watched: bool) -> None:
        async with pocket.engine(budget=256) as engine:
            handle = engine.submit(PROMPT, Method(Failing(), length=8))
            if not watched:
                await handle
            async for _ in handle:
                pass

    for watched in (False, True):
        with pytest.raises(PassFailed, match=r"by design"):
            on_a_thread(partial(asyncio.run, failing(watched)))
