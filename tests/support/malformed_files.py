"""Folders whose weights, index or tokenizer are refused."""

from functools import partial
from pathlib import Path

import torch

from support.folders import make_dream, make_llada
from support.spoil import (
    Case,
    Spoil,
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


Sharded = partial(Case, make=partial(make_llada, shards=2))
LLaDA = partial(Case, make=partial(make_llada, tokenizer=True))
Dream = partial(Case, make=partial(make_dream, tokenizer=True))
INDEX = "model.safetensors.index.json"
SHARD = "model-00001-of-00002.safetensors"


def described(data: bytes) -> Spoil:
    return content("tokenizer_config.json", data)


CASES = [
    Case("no weights", removed("model.safetensors"), "holds no weights"),
    Case("pickle only", pickled, "can run any code when opened"),
    Sharded("no index", removed(INDEX), f"no {INDEX}"),
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
    Case("too many", tensors(lambda t: t.update(x=torch.ones(3))), 'of no use to this model: "x"'),
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
    Sharded("index not JSON", content(INDEX, b"{"), "not valid JSON"),
    Sharded("index empty", content(INDEX, b"{}"), '"weight_map"'),
    Sharded(
        "index name twice", content(INDEX, b'{"weight_map": {"a": "b", "a": "c"}}'), "appears twice"
    ),
    Sharded("index no map", index(lambda names: names.clear()), '"weight_map"'),
    Sharded("index a list", content(INDEX, b'{"weight_map": []}'), "map"),
    Sharded("index a number", index(lambda names: names.update(x=3)), "names the file 3"),
    Sharded("index up", all_shards_at("../"), 'names the file "../model-0000'),
    Sharded("index absolute", all_shards_at("{parent}/"), "only plain names"),
    Sharded("index below", index(lambda n: n.update(x="sub/a.safetensors")), "only plain names"),
    Sharded("index hidden", index(lambda n: n.update(x=".safetensors")), "only plain names"),
    Sharded("index NUL", index(lambda n: n.update(x="\0.safetensors")), "only plain names"),
    Sharded("index surrogate", index(lambda n: n.update(x="\ud800.safetensors")), "only plain"),
    Sharded("index pickle", index(lambda n: n.update(x="model.bin")), "only plain names"),
    Sharded("index outside", link_outside(SHARD), "leads outside"),
    Sharded("shard missing", removed(SHARD), f"lacks {SHARD}"),
    Sharded("shard unread", index(lambda n: n.update(x=SHARD)), 'its files lack: "x"'),
    Sharded("shards swapped", swapped_names, f"but {INDEX} says"),
    Sharded("tensor twice", copied_into_other_shard, f"but {INDEX} says"),
    Dream("no merges", removed("merges.txt"), "has vocab.json but no merges.txt"),
    Dream("no vocabulary", removed("vocab.json"), "has merges.txt but no vocab.json"),
    LLaDA("config alone", removed("tokenizer.json"), "but no tokenizer.json"),
    Case("sentencepiece", content("tokenizer.model", b"x"), "but no tokenizer.json"),
    Case("wrong layout", content("merges.txt", b""), "but no vocab.json"),
    Case("tokenizer not JSON", content("tokenizer.json", b"x"), "is not valid JSON"),
    Case("tokenizer empty", content("tokenizer.json", b"{}"), "its model is null"),
    LLaDA("tokenizer outside", link_outside("tokenizer.json"), "leads outside"),
    LLaDA(
        "tokenizer too large",
        tokenizer_json(lambda t: t["model"]["vocab"].update(zebra=288)),
        "ids up to 288, but the network's vocabulary ends at 287",
    ),
    LLaDA(
        "merge unknown",
        tokenizer_json(lambda t: t["model"].update(merges=[["zz", "y"]])),
        "is not a tokenizer",
    ),
    Dream("vocabulary a list", content("vocab.json", b"[]"), "one JSON object"),
    Dream("id text", content("vocab.json", b'{"a": "1"}'), 'id of "a" must not be "1"'),
    Dream("id negative", content("vocab.json", b'{"a": -1}'), "must not be -1"),
    Dream("id twice", content("vocab.json", b'{"a": 1, "b": 1}'), "one id to two tokens"),
    Dream("merge of one", content("merges.txt", b"ab\n"), "merges.txt, line 1"),
    Dream("merge of three", content("merges.txt", b"#version\na b c\n"), "line 2"),
    Dream("merge of none", content("merges.txt", b"a zz\n"), "do not fit"),
    Dream("ids with a gap", content("added_tokens.json", b'{"<x>": 280}'), "cannot have"),
    Dream("ids disagree", content("added_tokens.json", b'{"<x>": 256}'), "disagree"),
    Dream("added a list", described(b'{"added_tokens_decoder": []}'), "must be an object"),
    Dream("added by name", described(b'{"added_tokens_decoder": {"x": {}}}'), 'bad entry "x"'),
    Dream("added nameless", described(b'{"added_tokens_decoder": {"256": {}}}'), "null wrongly"),
    LLaDA("template a number", described(b'{"chat_template": 3}'), "not 3"),
    LLaDA(
        "template nameless",
        described(b'{"chat_template": [{"name": "rag", "template": ""}]}'),
        'named "default"',
    ),
    LLaDA("name a list", described(b'{"bos_token": [1]}'), "bos_token must"),
    Case(
        "other layout",
        both(content("vocab.json", b'{"a": 0}'), content("merges.txt", b"")),
        "has vocab.json and merges.txt but no tokenizer.json",
    ),
]
