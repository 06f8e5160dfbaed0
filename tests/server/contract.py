"""What any major of the `openai` client must see; also run as a program, in an environment without Archer."""

import sys
from typing import Any

import openai

PROMPT = """\
Write a function to count the numbers in nums that are greater than 5.
assert solve([1, 7, 9]) == 2
assert solve([2]) == 0
def solve(nums):"""
MESSAGES: Any = [{"role": "user", "content": PROMPT}]
LENGTH = 16
PROVISIONAL = {"archer": {"stream_mode": "provisional"}}


def check(url: str, expected: str) -> None:
    """Plain replies, streams of both modes, several samples, usage, models, completions."""
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "pocket", "messages": MESSAGES, "max_tokens": LENGTH}
        reply = client.chat.completions.create(**asked, n=2, logprobs=True)
        assert [choice.message.content for choice in reply.choices] == [expected, expected]
        assert reply.usage is not None
        assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
        assert reply.choices[0].logprobs is not None
        for extra in ({}, PROVISIONAL):
            options: dict[str, Any] = {
                "stream": True,
                "stream_options": {"include_usage": True},
                "extra_body": extra,
            }
            chunks = list(client.chat.completions.create(**asked, **options))
            assert _text(chunks) == expected
            assert chunks[-1].usage is not None
            made = getattr(chunks[-1], "archer", None) or {}
            assert made["method"], "how it was made stands beside the usage"
            events = [event for chunk in chunks[:-1] if (event := getattr(chunk, "archer", None))]
            assert bool(events) == bool(extra)
            assert all(chunk.choices for chunk in chunks[:-1]), "clients index the first choice"
        with client.chat.completions.stream(**asked, extra_body=PROVISIONAL) as stream:
            final = stream.get_final_completion()
        assert final.choices[0].message.content == expected
        assert [model.id for model in client.models.list()] == ["pocket"]
        listed = client.models.list(extra_query={"methods": "true"})
        assert "pocket@saber" in [model.id for model in listed]
        assert client.models.retrieve("pocket").id == "pocket"
        two: dict[str, Any] = {"model": "pocket", "prompt": [PROMPT, PROMPT], "max_tokens": LENGTH}
        first, second = client.completions.create(**two).choices
        assert first.text == second.text
        parts = list(client.completions.create(**two, stream=True))
        joined = "".join(c.text for part in parts for c in part.choices if c.index == 1)
        assert joined == second.text


async def check_async(url: str, expected: str) -> None:
    """The same of the client that does not block."""
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {"model": "pocket", "messages": MESSAGES, "max_tokens": LENGTH}
        reply = await client.chat.completions.create(**asked)
        assert reply.choices[0].message.content == expected
        stream = await client.chat.completions.create(**asked, stream=True)
        assert _text([chunk async for chunk in stream]) == expected
        async with client.chat.completions.stream(**asked, extra_body=PROVISIONAL) as events:
            final = await events.get_final_completion()
        assert final.choices[0].message.content == expected


def _text(chunks: list[Any]) -> str:
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices)


if __name__ == "__main__":
    import asyncio

    check(*sys.argv[1:])
    asyncio.run(check_async(*sys.argv[1:]))
    sys.stdout.write(openai.__version__ + "\n")
