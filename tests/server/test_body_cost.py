"""The body of a request: strict JSON, bounded, and none that is allowed holds up the event loop."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archer.server import limits
from archer.server.body import parse
from archer.server.refusals import Refusal
from archer.server.request_reading import chat_request, text_request
from server.running import CHAT, TEXT, Client

OPENING = '{"model":"m","messages":[{"role":"user","content":'
CHATTING = OPENING + '"x"}],'
MANY = {
    "parts": (OPENING + "[", "{},", "]}]}"),
    "messages": ('{"model":"m","messages":[', "{},", "]}"),
    "settings": (CHATTING + '"archer":{"settings":{"a":[[', '"",', "]]}}}"),
    "lists in settings": (CHATTING + '"archer":{"settings":{"a":[', "[],", "]}}}"),
    "ids": ('{"model":"m","prompt":[', "-1,", "]}"),
    "lists of ids": ('{"model":"m","prompt":[', "[],", "]}"),
    "numbers": ('{"model":"m","prompt":[', "1e9,", "]}"),
    "texts": ('{"model":"m","prompt":[', '"",', "]}"),
    "stop": (CHATTING + '"stop":[', '"",', "]}"),
    "texts of brackets": ('{"model":"m","prompt":[', '"[",', "]}"),
    "a text without an end": ("[" * 20_000 + '"', '\\"', ""),
    "names": ('{"model":"m","prompt":"x",', '"{at:x}":1,', "}"),
    "names of the extension": (CHATTING + '"archer":{', '"{at:x}":1,', "}}"),
    "names of settings": (CHATTING + '"archer":{"settings":{', '"{at:x}":{},', "}}}"),
    "names of a message": (OPENING + '"x",', '"{at:x}":1,', "}]}"),
    "names of a part": (OPENING + '[{"type":"text","text":"",', '"{at:x}":1,', "}]}]}"),
}
"""What stands before, what is repeated, what stands behind."""
SOUND = json.dumps({"model": "m", "prompt": [12345] * (limits.BODY // 8)}).encode()
SLOWER = 30
"""Wrong bodies may take N times as long as the standard library takes for a sound one."""


def made(kind: str, count: int | None = None) -> bytes:
    """N of them, or as many as a body may hold."""
    before, one, behind = MANY[kind]
    room = limits.BODY - len(before) - len(behind)
    if "{at:x}" in one:
        count = min(count or limits.BODY, room // len(one.replace("{at:x}", "fffff")))
        inner = "".join(one.replace("{at:x}", f"{at:x}") for at in range(count))
    else:
        inner = one * min(count or limits.BODY, room // len(one))
    return (before + inner.rstrip(",") + behind).encode()


def spent(work: Callable[[], object], enough: float = 0.0) -> float:
    """CPU seconds of this thread, the best of three, or the first that is below `enough`."""
    found = float("inf")
    for _ in range(3):
        began = time.thread_time()
        work()
        found = min(found, time.thread_time() - began)
        if found < enough:
            break
    return found


def refuse(content: bytes, kind: str) -> None:
    with pytest.raises(Refusal) as caught:
        (text_request if b'"prompt"' in content[:40] else chat_request)(parse(content))
    assert caught.value.status == 400, kind


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("count", [None, limits.CONTAINERS - 8], ids=["most bytes", "most lists"])
def test_refusing_a_body_costs_little_more_than_reading_one(kind: str, count: int | None) -> None:
    content = made(kind, count)
    assert len(content) <= limits.BODY
    bound = SLOWER * spent(lambda: json.loads(SOUND))
    assert spent(lambda: refuse(content, kind), bound) < bound


def test_a_long_list_with_one_wrong_id_at_its_end_is_refused_soon() -> None:
    sound = spent(lambda: json.loads(SOUND))
    wrong = json.dumps({"model": "m", "prompt": [1] * (limits.VALUES - 9) + [-1]}).encode()
    assert spent(lambda: refuse(wrong, "ids")) < SLOWER * sound


def test_the_longest_sensible_requests_are_read() -> None:
    ids = [4] * (limits.VALUES // 2)
    asked = text_request(parse(json.dumps({"model": "m", "prompt": ids}).encode()))
    assert asked.prompts == (ids,)
    text = "[{" * (limits.BODY // 2 - 100)
    asked = text_request(parse(json.dumps({"model": "m", "prompt": text}).encode()))
    assert asked.prompts == (text,)


def test_others_are_answered_while_such_bodies_come_in(client: Client) -> None:
    kind = {"content-type": "application/json"}
    bodies = [made(name) for name in ("parts", "settings", "ids", "names") * 2]
    with ThreadPoolExecutor(len(bodies)) as pool:
        paths = [TEXT if b'"prompt"' in each[:40] else CHAT for each in bodies]
        asked = [
            pool.submit(client.send, "POST", path, body, kind)
            for path, body in zip(paths, bodies, strict=True)
        ]
        waits = []
        while not all(each.done() for each in asked):
            began = time.monotonic()
            assert client.get("/health").status == 200
            waits.append(time.monotonic() - began)
        assert {each.result().status for each in asked} == {400}
    assert max(waits) < 5


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


@given(JSON)
def test_sound_json_is_read_as_it_is(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value


REFUSED = {
    "": "not JSON",
    "{": "not JSON",
    "NaN": "NaN is not a number",
    '{"a": Infinity}': "Infinity is not a number",
    "[-Infinity]": "-Infinity is not a number",
    '{"a": 1, "a": 2}': "twice",
    '"\\ud800"': "surrogate",
    '{"\\udc00": 1}': "surrogate",
    '"\\u0000"': "NUL",
    "1e400": "too large",
    str(1 << 63): "64 bits",
    "9" * 5000: "too long",
    "[" * (limits.DEPTH + 1) + "]" * (limits.DEPTH + 1): "deeper",
    "[" * 10_000: "deeper",
    "[" * 200_000: "lists and objects",
    "[" + "0," * limits.VALUES + "0]": f"more than {limits.VALUES} values",
    "[" + "[]," * limits.CONTAINERS + "[]]": f"more than {limits.CONTAINERS} lists and objects",
    json.dumps(
        dict.fromkeys(map(str, range(limits.NAMES + 1)))
    ): f"more than {limits.NAMES} fields",
}


@pytest.mark.parametrize(("text", "phrase"), REFUSED.items(), ids=[k[:12] for k in REFUSED])
def test_everything_else_is_refused_with_a_sentence(text: str, phrase: str) -> None:
    with pytest.raises(Refusal, match=phrase) as caught:
        parse(text.encode())
    assert caught.value.status == 400


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(Refusal, match="not UTF-8: byte 1"):
        parse(b'"\xff"')


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(content: bytes) -> None:
    refusal = None
    try:
        read = parse(content)
    except Refusal as error:
        refusal = error
    if refusal is None:
        assert read == json.loads(content)
    else:
        assert (refusal.status, refusal.message[-1]) == (400, ".")
