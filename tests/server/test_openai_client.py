"""The real `openai` client against the real server: nothing about it may have to be known to Archer."""

import os
import re
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, cast

import openai
import pytest

from archer.model import Model
from archer.tasks import open_task
from conftest import REPOSITORY
from server.contract import LENGTH, check, check_async
from server.running import (
    CHAT,
    PROBLEM,
    Client,
    memory_for,
    on_a_loop,
    serving,
    slow,
    until,
)

MESSAGES: Any = [{"role": "user", "content": PROBLEM}]


def connected(client: Client, api_key: str = "none", **options: Any) -> openai.OpenAI:
    url = f"http://127.0.0.1:{client.port}/v1"
    return openai.OpenAI(base_url=url, api_key=api_key, max_retries=0, **options)


def test_everything_that_both_majors_must_do(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PROBLEM, length="auto", max_length=LENGTH)
    check(f"http://127.0.0.1:{client.port}/v1", done.text or "")


@on_a_loop
async def test_the_same_without_blocking(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PROBLEM, length="auto", max_length=LENGTH)
    await check_async(f"http://127.0.0.1:{client.port}/v1", done.text or "")


def test_an_answer_streams_before_a_third_of_its_updates(client: Client) -> None:
    """By the method that is for it, on the median of some problems; updates are told beside the text."""
    shares = []
    for sample in open_task("pocket-dev").samples()[:9]:
        with connected(client) as api:
            chunks = api.chat.completions.create(
                model="pocket@archer-stream",
                messages=cast("Any", sample.messages),
                max_tokens=64,
                stream=True,
                extra_body={"archer": {"stream_mode": "provisional"}},
            )
            updates = first = 0
            for chunk in chunks:
                event = (chunk.model_extra or {}).get("archer") or {}
                updates = event.get("update", updates)
                if not first and chunk.choices and chunk.choices[0].delta.content:
                    first = updates
        shares.append(first / updates)
    assert median(shares) < 1 / 3, shares


def test_an_answer_says_how_it_was_made(pocket: Model, client: Client) -> None:
    with connected(client) as api:
        reply = api.chat.completions.create(
            model="pocket@archer:4", messages=MESSAGES, max_tokens=8
        )
    made = (reply.model_extra or {})["archer"]
    assert made["method"] == "archer:4"
    assert made["settings"]["radius"] == 4
    assert made["model"] == "pocket"
    assert made["model_digest"] == pocket.digest
    assert (made["seed"], made["dtype"]) == (0, "float32")


def install(python: Path | str, *wanted: str) -> None:
    """By pip; skips the test where it cannot."""
    command = [str(python), "-m", "pip", "install", "--quiet", *wanted]
    installed = subprocess.run(command, capture_output=True, check=False)
    if installed.returncode:
        said = installed.stderr.decode().strip().splitlines()[-1:]
        pytest.skip(f"pip cannot install {wanted[-1]} here: {' '.join(said)}")


def tried_by(python: Path | str, program: str, client: Client, model: Model, **more: str) -> str:
    """The version of the client with which a program beside this file has tried the server."""
    (done,) = model.generate(PROBLEM, length="auto", max_length=LENGTH)
    url = f"http://127.0.0.1:{client.port}/v1"
    command = [python, Path(__file__).with_name(program), url, done.text or ""]
    ran = subprocess.run(command, capture_output=True, check=False, env={**os.environ, **more})
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().strip()


def test_the_other_major(pocket: Model, client: Client, tmp_path: Path) -> None:
    """Beside the tests' own: what it stands on is there already, but for one package."""
    other = "2.54.0"
    aside = ("--no-deps", "--no-compile", "--target", str(tmp_path))
    install(sys.executable, *aside, "distro", f"openai=={other}")
    assert (
        tried_by(sys.executable, "contract.py", client, pocket, PYTHONPATH=str(tmp_path)) == other
    )
    assert openai.__version__.partition(".")[0] not in ("0", "1", "2")


@pytest.mark.slow
def test_litellm_in_an_environment_of_its_own(
    pocket: Model, client: Client, tmp_path: Path
) -> None:
    """It wants an older client than the tests have."""
    wanted = "1.106.2"
    venv.create(tmp_path / "other", with_pip=True)
    python = tmp_path / "other" / "bin" / "python"
    install(python, f"litellm=={wanted}")
    assert tried_by(python, "through_litellm.py", client, pocket) == wanted


def failing(client: Client, **options: Any) -> openai.APIStatusError:
    """What the client raises for a request of some text."""
    with connected(client) as made, pytest.raises(openai.APIStatusError) as caught:
        made.chat.completions.create(**{"model": "pocket", "messages": MESSAGES} | options)
    assert caught.value.body, "the client has read the object with the sentence"
    return caught.value


STABLE: dict[str, Any] = {"stream": True, "extra_body": {"archer": {"stream_mode": "stable"}}}
REFUSED: list[tuple[dict[str, Any], type[openai.APIStatusError], int, str | None, str]] = [
    ({"model": "gpt-4"}, openai.NotFoundError, 404, "model_not_found", "no model"),
    ({"top_p": 0.5}, openai.BadRequestError, 400, None, "'top_p'"),
    ({"max_tokens": 5000}, openai.BadRequestError, 400, "context_length_exceeded", "longer"),
    (STABLE, openai.BadRequestError, 400, None, "can still be taken back"),
    (
        {"extra_headers": {"host": "archer.example"}},
        openai.PermissionDeniedError,
        403,
        None,
        "names of its own machine",
    ),
    ({"user": "x" * (1 << 20)}, openai.APIStatusError, 413, "too_large", "larger"),
    (
        {"extra_headers": {"content-type": "text/plain"}},
        openai.APIStatusError,
        415,
        None,
        "Content-Type",
    ),
]


@pytest.mark.parametrize(
    ("options", "kind", "status", "code", "phrase"), REFUSED, ids=[each[-1] for each in REFUSED]
)
def test_errors_are_the_exceptions_that_people_catch(
    client: Client,
    options: dict[str, Any],
    kind: type[openai.APIStatusError],
    status: int,
    code: str | None,
    phrase: str,
) -> None:
    error = failing(client, **options)
    assert isinstance(error, kind)
    assert (error.status_code, error.code) == (status, code)
    assert phrase in error.message


def test_a_full_queue_and_deadlines_are_the_exceptions_that_people_catch(pocket: Model) -> None:
    short: dict[str, Any] = {"queue": 1, "queue_timeout": 1.0, "timeout": 3.0}
    memory = memory_for(pocket, 900)
    with serving(pocket, memory=memory, **short) as client, ThreadPoolExecutor(1) as pool:
        long: dict[str, Any] = {"model": "pocket@llada-confidence", "max_tokens": 900}
        with closing(client.raw(CHAT, slow(900))):
            until(lambda: client.metric("num_requests_running") == 1)
            waiting = pool.submit(failing, client, **long)
            until(lambda: client.metric("num_requests_waiting") == 1)
            full = failing(client)
            assert isinstance(full, openai.RateLimitError)
            assert full.code == "queue_full"
            assert int(full.response.headers["retry-after"]) >= 1
            queued = waiting.result()
            assert isinstance(queued, openai.InternalServerError)
            assert (queued.status_code, queued.code) == (503, "queue_timeout")
        until(client.idle)
        late = failing(client, **long)
        assert isinstance(late, openai.InternalServerError)
        assert (late.status_code, late.code) == (504, "timeout")
        client.server.state.ready().stopping = True
        leaving = failing(client)
        assert isinstance(leaving, openai.InternalServerError)
        assert (leaving.status_code, leaving.code) == (503, "stopping")


def test_the_python_of_the_page_about_serving_runs(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python no-run\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    code = "\n".join(block for block in blocks if "client" in block)
    assert "127.0.0.1:8000" in code
    assert "suffix=" in code
    exec(compile(code.replace(":8000", f":{client.port}"), "serving.md", "exec"), {})
    assert "CompletionUsage" in capsys.readouterr().out


def test_an_error_in_the_middle_of_a_stream_is_raised(pocket: Model) -> None:
    with serving(pocket, timeout=0.4) as client, connected(client) as made:
        stream = made.chat.completions.create(
            model="pocket@llada-confidence", messages=MESSAGES, max_tokens=512, stream=True
        )
        with pytest.raises(openai.APIError, match="did not end within"):
            list(stream)
