"""Folders whose weights, index or tokenizer are refused."""

from pathlib import Path

import torch

from support.folders import make_dream, make_llada
from support.spoil import (
    Case,
    all_shards_at,
    both,
    config,
    content,
    copied_into_other_shard,
    doubled_name,
    header,
    index,
    instead,
    link_outside,
    pickled,
    removed,
    swapped_names,
    tensors,
    tokenizer_json,
    whole_file,
)

LAYER = "model.transformer.blocks.0."


def sharded(folder: Path) -> Path:
    return make_llada(folder, shards=2)


def llada_text(folder: Path) -> Path:
    return make_llada(folder, tokenizer=True)


def dream_text(folder: Path) -> Path:
    return make_dream(folder, tokenizer=True)


SHARD = "model-00001-of-00002.safetensors"

CASES = [
    Case("no weights", removed("model.safetensors"), "holds no weights"),
    Case("pickle only", pickled, "can run any code when opened"),
    Case(
        "no index",
        removed("model.safetensors.index.json"),
        "no model.safetensors.index.json",
        sharded,
    ),
    Case("weights outside", link_outside("model.safetensors"), "leads outside"),
    Case("weights a folder", instead("model.safetensors", Path.mkdir), "not a regular file"),
    Case("weights empty", content("model.safetensors", b""), "is damaged"),
    Case("weights short", whole_file(lambda data: data[:-1]), "is damaged"),
    Case("weights half", whole_file(lambda data: data[: len(data) // 2]), "is damaged"),
    Case("weights with a tail", whole_file(lambda data: data + b"PK"), "is damaged"),
    Case("header enormous", whole_file(lambda d: b"\xff" * 8 + d[8:]), "header would take"),
    Case("header not JSON", header(lambda raw: b"x" + raw[1:]), "is damaged"),
    Case("name twice", header(doubled_name), "appears twice"),
    Case("other dtype", tensors(lambda t: t.update(x=torch.ones(3, dtype=torch.int64))), '"I64"'),
    Case("too few", tensors(lambda t: t.pop(LAYER + "q_proj.weight")), "1 tensor is missing"),
    Case(
        "none",
        tensors(dict.clear),
        '21 tensors are missing from the weights: "model.transformer.wte.weight", '
        '"model.transformer.ln_f.weight", "model.transformer.ff_out.weight" and 18 more',
    ),
    Case(
        "too many",
        tensors(lambda t: t.update(x=torch.ones(3))),
        '1 tensor is of no use to this model: "x"',
    ),
    Case("path as a name", tensors(lambda t: t.update({"../../x": torch.ones(3)})), '"../../x"'),
    Case(
        "wrong shape",
        tensors(lambda t: t.update({LAYER + "k_proj.weight": torch.ones(16, 32)})),
        "is [16, 32], config.json asks for [32, 32]",
    ),
    Case(
        "same size, wrong shape",
        tensors(lambda t: t.update({LAYER + "up_proj.weight": torch.ones(32, 48)})),
        "is [32, 48], config.json asks for [48, 32]",
    ),
    Case("wider config", config(d_model=64), "of the wrong shape"),
    Case("larger vocabulary", config(vocab_size=512, embedding_size=512), "wrong shape"),
    Case("more layers", config(n_layers=3), "9 tensors are missing"),
    Case("fewer layers", config(n_layers=1), "9 tensors are of no use"),
    Case(
        "NaN",
        tensors(lambda t: t[LAYER + "ff_out.weight"].view(-1)[-1].fill_(float("nan"))),
        'blocks.0.ff_out.weight" holds NaN or infinite values',
    ),
    Case(
        "infinity",
        tensors(lambda t: t["model.transformer.ln_f.weight"][0].fill_(float("-inf"))),
        'ln_f.weight" holds NaN or infinite values',
    ),
    Case(
        "index not JSON", content("model.safetensors.index.json", b"{"), "not valid JSON", sharded
    ),
    Case("index empty", content("model.safetensors.index.json", b"{}"), '"weight_map"', sharded),
    Case(
        "index name twice",
        content("model.safetensors.index.json", b'{"weight_map": {"a": "b", "a": "c"}}'),
        "appears twice",
        sharded,
    ),
    Case("index no map", index(lambda names: names.clear()), '"weight_map"', sharded),
    Case(
        "index a list",
        content("model.safetensors.index.json", b'{"weight_map": []}'),
        "map",
        sharded,
    ),
    Case("index a number", index(lambda names: names.update(x=3)), "names the file 3", sharded),
    Case("index up", all_shards_at("../"), 'names the file "../model-0000', sharded),
    Case("index absolute", all_shards_at("{parent}/"), "only plain names", sharded),
    Case(
        "index below", index(lambda n: n.update(x="sub/a.safetensors")), "only plain names", sharded
    ),
    Case("index hidden", index(lambda n: n.update(x=".safetensors")), "only plain names", sharded),
    Case("index NUL", index(lambda n: n.update(x="\0.safetensors")), "only plain names", sharded),
    Case(
        "index surrogate", index(lambda n: n.update(x="\ud800.safetensors")), "only plain", sharded
    ),
    Case("index pickle", index(lambda n: n.update(x="model.bin")), "only plain names", sharded),
    Case("index outside", link_outside(SHARD), "leads outside", sharded),
    Case("shard missing", removed(SHARD), f"lacks {SHARD}", sharded),
    Case("shard unread", index(lambda n: n.update(x=SHARD)), 'its files lack: "x"', sharded),
    Case("shards swapped", swapped_names, "but model.safetensors.index.json says", sharded),
    Case("tensor twice", copied_into_other_shard, "but model.safetensors.index.json says", sharded),
    Case("no merges", removed("merges.txt"), "has vocab.json but no merges.txt", dream_text),
    Case("no vocabulary", removed("vocab.json"), "has merges.txt but no vocab.json", dream_text),
    Case("config alone", removed("tokenizer.json"), "but no tokenizer.json", llada_text),
    Case("sentencepiece", content("tokenizer.model", b"x"), "but no tokenizer.json"),
    Case("wrong layout", content("merges.txt", b""), "but no vocab.json"),
    Case("tokenizer not JSON", content("tokenizer.json", b"x"), "is not valid JSON"),
    Case("tokenizer empty", content("tokenizer.json", b"{}"), "its model is null"),
    Case("tokenizer outside", link_outside("tokenizer.json"), "leads outside", llada_text),
    Case(
        "tokenizer too large",
        tokenizer_json(lambda t: t["model"]["vocab"].update(zebra=288)),
        "ids up to 288, but the network's vocabulary ends at 287",
        llada_text,
    ),
    Case(
        "merge unknown",
        tokenizer_json(lambda t: t["model"].update(merges=[["zz", "y"]])),
        "is not a tokenizer",
        llada_text,
    ),
    Case("vocabulary a list", content("vocab.json", b"[]"), "one JSON object", dream_text),
    Case("id text", content("vocab.json", b'{"a": "1"}'), 'id of "a" must not be "1"', dream_text),
    Case("id negative", content("vocab.json", b'{"a": -1}'), "must not be -1", dream_text),
    Case(
        "id twice", content("vocab.json", b'{"a": 1, "b": 1}'), "one id to two tokens", dream_text
    ),
    Case("merge of one", content("merges.txt", b"ab\n"), "merges.txt, line 1", dream_text),
    Case("merge of three", content("merges.txt", b"#version\na b c\n"), "line 2", dream_text),
    Case("merge of none", content("merges.txt", b"a zz\n"), "do not fit", dream_text),
    Case(
        "ids with a gap", content("added_tokens.json", b'{"<x>": 280}'), "cannot have", dream_text
    ),
    Case("ids disagree", content("added_tokens.json", b'{"<x>": 256}'), "disagree", dream_text),
    Case(
        "added a list",
        content("tokenizer_config.json", b'{"added_tokens_decoder": []}'),
        "added_tokens_decoder must be an object",
        dream_text,
    ),
    Case(
        "added by name",
        content("tokenizer_config.json", b'{"added_tokens_decoder": {"x": {}}}'),
        'bad entry "x"',
        dream_text,
    ),
    Case(
        "added nameless",
        content("tokenizer_config.json", b'{"added_tokens_decoder": {"256": {}}}'),
        "describes null wrongly",
        dream_text,
    ),
    Case(
        "template a number",
        content("tokenizer_config.json", b'{"chat_template": 3}'),
        "not 3",
        llada_text,
    ),
    Case(
        "template nameless",
        content("tokenizer_config.json", b'{"chat_template": [{"name": "rag", "template": ""}]}'),
        'named "default"',
        llada_text,
    ),
    Case(
        "name a list",
        content("tokenizer_config.json", b'{"bos_token": [1]}'),
        "bos_token must",
        llada_text,
    ),
    Case(
        "other layout",
        both(content("vocab.json", b'{"a": 0}'), content("merges.txt", b"")),
        "has vocab.json and merges.txt but no tokenizer.json",
    ),
]
