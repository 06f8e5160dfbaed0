"""The real `openai` client against the real server: nothing about it may have to be known to Archer."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from archer.model import Model
from archer.server.limits import Limits
from server.contract import LENGTH, check, check_async
from server.running import PROBLEM, Client, on_a_loop, serving, until

OTHER_MAJOR = "openai==2.54.0"
MESSAGES: Any = [{"role": "user", "content": PROBLEM}]


@pytest.fixture
def asking(client: Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"http://127.0.0.1:{client.port}/v1", api_key="none", max_retries=0
    ) as made:
        yield made


def test_everything_that_both_majors_must_do(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PROBLEM, length=LENGTH)
    check(f"http://127.0.0.1:{client.port}/v1", done.text or "")


@on_a_loop
async def test_the_same_without_blocking(pocket: Model, client: Client) -> None:
    (done,) = pocket.generate(PROBLEM, length=LENGTH)
    await check_async(f"http://127.0.0.1:{client.port}/v1", done.text or "")


@pytest.mark.slow
def test_the_other_major(pocket: Model, client: Client, tmp_path: Path) -> None:
    """In an environment of its own, because two majors do not fit into one."""
    venv.create(tmp_path / "other", with_pip=True)
    python = tmp_path / "other" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", OTHER_MAJOR]
    if subprocess.run(install, capture_output=True, check=False).returncode:
        pytest.skip(f"{OTHER_MAJOR} cannot be installed here")
    (done,) = pocket.generate(PROBLEM, length=LENGTH)
    url = f"http://127.0.0.1:{client.port}/v1"
    script = Path(__file__).with_name("contract.py")
    ran = subprocess.run([python, script, url, done.text or ""], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().strip() == OTHER_MAJOR.partition("==")[2]
    assert openai.__version__ != OTHER_MAJOR.partition("==")[2]
    assert sys.executable != str(python)


def test_errors_are_the_exceptions_that_people_catch(asking: openai.OpenAI) -> None:
    ask = asking.chat.completions.create
    with pytest.raises(openai.NotFoundError) as missing:
        ask(model="gpt-4", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        ask(model="pocket", messages=MESSAGES, top_p=0.5)
    assert refused.value.param == "top_p"
    with pytest.raises(openai.BadRequestError) as long:
        ask(model="pocket", messages=MESSAGES, max_tokens=5000)
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="can still be taken back"):
        ask(
            model="pocket",
            messages=MESSAGES,
            stream=True,
            extra_body={"archer": {"stream_mode": "stable"}},
        )


def test_a_wrong_key_is_an_authentication_error(pocket: Model) -> None:
    key = "the-key-of-this-server"
    with serving(pocket, keys=(key,)) as client:
        url = f"http://127.0.0.1:{client.port}/v1"
        with openai.OpenAI(base_url=url, api_key=key) as made:
            assert made.models.list().data[0].id == "pocket"
        with (
            openai.OpenAI(base_url=url, api_key="wrong") as made,
            pytest.raises(openai.AuthenticationError),
        ):
            made.models.list()


def test_an_error_in_the_middle_of_a_stream_is_raised(pocket: Model) -> None:
    with serving(pocket, limits=Limits(seconds=0.4)) as client:
        url = f"http://127.0.0.1:{client.port}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as made:
            stream = made.chat.completions.create(
                model="pocket@llada-confidence", messages=MESSAGES, max_tokens=512, stream=True
            )
            with pytest.raises(openai.APIError, match="did not end within"):
                list(stream)


def test_a_client_that_loses_patience_frees_the_slot(client: Client, asking: openai.OpenAI) -> None:
    cancelled = client.metric("requests_cancelled_total")
    for stream in (False, True):
        with pytest.raises((openai.APITimeoutError, httpx.ReadTimeout)):
            list(
                asking.with_options(timeout=0.3).chat.completions.create(
                    model="pocket@llada-confidence",
                    messages=MESSAGES,
                    max_tokens=900,
                    stream=stream,
                    extra_body={"archer": {"settings": {"block": 900}}},
                )
            )
        until(client.idle)
    assert client.metric("requests_cancelled_total") == cancelled + 2
