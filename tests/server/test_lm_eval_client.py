"""The two local models of the lm-evaluation-harness against the server."""

import json
from typing import Any

import pytest

from archer.model import Model
from server.running import CHAT, PROBLEM, TEXT, Client, on_a_thread

pytest.importorskip("lm_eval")
pytest.importorskip("tenacity")

LENGTH = 16
PROMPTS = [PROBLEM.replace("5.", f"{number}.") for number in (1, 2, 3)]


def instances(prompts: list[Any]) -> list[Any]:
    from lm_eval.api.instance import Instance

    wanted = {"until": [" for "], "max_gen_toks": LENGTH, "temperature": 0.0}
    return [
        Instance("generate_until", {}, (prompt, dict(wanted)), n)
        for n, prompt in enumerate(prompts)
    ]


def test_completions(pocket: Model, client: Client) -> None:
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    model = LocalCompletionsAPI(
        base_url=f"http://127.0.0.1:{client.port}{TEXT}",
        model="pocket",
        tokenizer_backend=None,
        tokenized_requests=False,
        batch_size=2,
        num_concurrent=2,
    )
    found = on_a_thread(lambda: model.generate_until(instances(PROMPTS)))
    expected = pocket.generate(
        PROMPTS, chat=False, length="auto", max_length=LENGTH, stop=[" for "]
    )
    assert found == [each.text for each in expected]


def test_chats(pocket: Model, client: Client) -> None:
    from lm_eval.models.api_models import JsonChatStr
    from lm_eval.models.openai_completions import LocalChatCompletion

    model = LocalChatCompletion(
        base_url=f"http://127.0.0.1:{client.port}{CHAT}", model="pocket", num_concurrent=1
    )
    chats = [json.dumps([{"role": "user", "content": text}]) for text in PROMPTS]
    asked = instances([JsonChatStr(each) for each in chats])
    found = on_a_thread(lambda: model.generate_until(asked))
    expected = pocket.generate(PROMPTS, length="auto", max_length=LENGTH, stop=[" for "])
    assert found == [each.text for each in expected]
