"""What trainers get and do over HTTP: tokens and states of rollouts, and new weights where it is allowed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from archer.errors import BadRequest
from archer.model import Model, load
from archer.request.fill import Fill
from archer.server.settings import ServerSettings
from server.running import PROBLEM, TEXT, Client, serving

KEY = "k" * 24
UPDATE = "/update_weights_from_disk"


def test_a_choice_tells_which_update_wrote_each_token(client: Client, pocket: Model) -> None:
    extension = {"method": "saber", "return_tokens": True, "return_states": True}
    reply = client.ask(max_tokens=16, archer=extension).json
    told = reply["choices"][0]["archer"]
    (done,) = pocket.generate(PROBLEM, "saber", length=16)
    count = len(told["token_ids"])
    assert told["token_ids"] == list(done.tokens[:count])
    assert told["written_at"] == list(done.written_at[:count])
    assert told["confidences"] == pytest.approx(list(done.confidences[:count]))
    assert told["weights_version"] == 0
    assert told["passes_per_token"] > 0
    assert told["states"][0] == [None] * 16
    assert told["states"][-1][:count] == told["token_ids"]
    assert "archer" not in client.ask(max_tokens=8).json["choices"][0]


def test_states_that_would_be_too_many_are_refused(client: Client) -> None:
    extension = {"method": "llada-confidence", "return_states": True}
    for wanted in ({"max_tokens": 600}, {"max_tokens": 256, "n": 4, "temperature": 1.0}):
        reply = client.ask(**wanted, archer=extension)
        assert reply.status == 400
        assert "return_tokens" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "count"),
    [({"n": 8, "temperature": 1.0}, 1), ({}, 8), ({"n": 2, "temperature": 1.0}, 4)],
    ids=str,
)
def test_states_of_all_responses_count(client: Client, fields: dict[str, Any], count: int) -> None:
    """One response of this length is told with its states, eight are not."""
    extension = {"method": "llada-confidence", "return_states": True}
    body = {"model": "pocket", "prompt": ["def f(x):"] * count, "max_tokens": 200}
    reply = client.post(TEXT, body | fields | {"archer": extension})
    assert reply.status == 400
    assert "All states of the responses" in reply.json["error"]["message"]


def test_states_are_those_of_what_was_written_however_much_was_given(
    client: Client, pocket: Model
) -> None:
    prompt, suffix = "def f(x):", "\nx = 1" * 100
    extension = {
        "method": "saber",
        "settings": {"length": 16},
        "return_tokens": True,
        "return_states": True,
    }
    body = {"model": "pocket", "prompt": prompt, "suffix": suffix, "archer": extension, "n": 2}
    reply = client.post(TEXT, body).json
    (done,) = pocket.generate(Fill((prompt, suffix)), "saber", length=16)
    assert len(reply["choices"]) == 2
    for choice in reply["choices"]:
        assert choice["archer"]["states"] == [list(state) for state in done.states()]
        assert choice["archer"]["states"][-1] == choice["archer"]["token_ids"] == list(done.tokens)


def test_weights_change_only_where_it_is_allowed(client: Client) -> None:
    reply = client.post(UPDATE, {"model_path": "x"})
    assert reply.status == 403
    assert "does not let clients" in reply.json["error"]["message"]


def test_a_client_with_a_key_changes_the_weights(tmp_path: Path) -> None:
    model = load("pocket")
    root = tmp_path / "weights"
    folder = root / "step-1"
    shutil.copytree(model.folder.path, folder)
    name = "model.transformer.blocks.0.ff_out.weight"
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {name: tensors[name] * 0.5}, folder / "model.safetensors")
    with serving(model, keys=(KEY,), allow_weight_updates=root) as client:
        anyone = Client(client.server)
        assert anyone.post(UPDATE, {"model_path": "step-1"}).status == 401
        for path in ("../weights/../..", "/", "step-2", "x" * 400, "x" * 1000, "step-1\0"):
            assert client.post(UPDATE, {"model_path": path}).status == 400
        assert client.post(UPDATE, {"model_path": "step-1", "also": 1}).status == 400
        assert client.post(UPDATE, {"model_path": "step-1", "running": "no"}).status == 400
        (root / "empty").mkdir()
        refused = client.post(UPDATE, {"model_path": "empty"})
        assert refused.status == 400
        assert str(tmp_path) not in refused.json["error"]["message"]
        reply = client.post(UPDATE, {"model_path": "step-1", "running": "restart"})
        assert (reply.status, reply.json["weights_version"]) == (200, 1)
        done = client.ask(max_tokens=8, archer={"return_tokens": True}).json["choices"][0]
        assert done["archer"]["weights_version"] == 1
    found = dict(model.network.named_parameters())["layers.0.down"]
    assert torch.equal(found, (tensors[name] * 0.5).float())


def test_weights_are_not_changed_without_a_key(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="only where keys protect the server"):
        ServerSettings(allow_weight_updates=tmp_path).read_files()
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    with pytest.raises(BadRequest, match="is not a folder of new weights"):
        ServerSettings(allow_weight_updates=tmp_path / "no", api_key_file=keys).read_files()
