"""Folders whose config.json is refused."""

import os
from pathlib import Path

from support.folders import make_dream
from support.spoil import Case, config, content, instead, link_outside, removed, without

WHOLE = "whole number from 1"

CASES = [
    Case("no config", removed("config.json"), "holds no config.json"),
    Case("empty config", content("config.json", b""), "not valid JSON"),
    Case("config not JSON", content("config.json", b"{'a': 1}"), "not valid JSON"),
    Case("config a list", content("config.json", b"[1]"), "one JSON object, not a list"),
    Case("config a number", content("config.json", b"7"), "one JSON object, not 7"),
    Case("config key twice", content("config.json", b'{"a": 1, "a": 2}'), '"a" appears twice'),
    Case("config not UTF-8", content("config.json", b'{"a": "\xff"}'), "not UTF-8"),
    Case("config with a BOM", content("config.json", b"\xef\xbb\xbf{}"), "not valid JSON"),
    Case("config too large", content("config.json", b" " * (1 << 20) + b"{}"), "larger than 1 MiB"),
    Case("config too deep", content("config.json", b"[" * 100_000), "nested too deeply"),
    Case("config endless number", content("config.json", b"9" * 5000), "not valid JSON"),
    Case("config a folder", instead("config.json", Path.mkdir), "not a regular file"),
    Case("config a pipe", instead("config.json", os.mkfifo), "not a regular file"),
    Case("config a dead link", instead("config.json", lambda p: p.symlink_to("x")), "broken link"),
    Case("config a loop", instead("config.json", lambda p: p.symlink_to(p)), "broken link"),
    Case("config outside", link_outside("config.json"), "leads outside"),
    Case("no architectures", without("architectures"), '"architectures" is missing'),
    Case("architectures empty", config(architectures=[]), "must be a list of names"),
    Case("architectures text", config(architectures="LLaDAModelLM"), "must be a list of names"),
    Case(
        "unknown architecture",
        config(architectures=["LlamaForCausalLM"]),
        '"LlamaForCausalLM" is not supported; supported are LLaDAModelLM, ILLaDAForCausalLM, DreamModel',
    ),
    Case("model_type alone", config(architectures=None, model_type="llada"), "list of names"),
    Case("mask beyond", config(mask_token_id=288), "token id from 0 to 287"),
    Case("mask negative", config(mask_token_id=-1), "token id from 0 to 287"),
    Case("mask true", config(mask_token_id=True), "287 (the vocabulary), not true"),
    Case("mask null", config(mask_token_id=None), "287 (the vocabulary), not null"),
    Case("mask is the end", config(eos_token_id=[3, 258]), "which eos_token_id names too"),
    Case("end empty", config(eos_token_id=[]), "at least one token"),
    Case("end beyond", config(eos_token_id=[1, 999]), "not 999"),
    Case("layers a bomb", config(n_layers=10**12), WHOLE),
    Case("positions a bomb", config(max_sequence_length=10**18), WHOLE),
    Case("theta enormous", config(rope_theta=10**400), "positive number"),
    Case("heads uneven", config(n_heads=5), "even multiple of n_heads"),
    Case("head size odd", config(n_heads=32), "even multiple of n_heads"),
    Case("kv heads uneven", config(n_kv_heads=3), "must divide n_heads"),
    Case("one for true", config(rope=1), '"rope" is 1; only true is supported'),
    Case("clipped", config(clip_qkv=8.0), '"clip_qkv" is 8.0'),
    Case("padded rows", config(embedding_size=300), '"embedding_size" differs from "vocab_size"'),
    Case("quantised", config(quantization_config={"bits": 4}), 'config" is an object'),
    Case("yarn", config(rope_scaling={"type": "yarn"}), '"rope_scaling" is an object', make_dream),
    Case("window", config(use_sliding_window=True), '"use_sliding_window" is true', make_dream),
    Case("mrope", config(use_mrope=True), '"use_mrope" is true', make_dream),
    Case("no tie key", without("tie_word_embeddings"), "is missing", make_dream),
    Case("rope a list", config(rope_parameters=[1]), '"rope_parameters" must be an object'),
    Case(
        "rope scaled",
        config(rope_parameters={"rope_type": "yarn", "rope_theta": 5e5}),
        '"rope_type": "default" alone',
    ),
    Case(
        "rope partial",
        config(rope_parameters={"rope_type": "default", "rope_theta": 5e5, "factor": 2}),
        '"rope_type": "default" alone',
    ),
    Case(
        "rope without theta",
        config(rope_parameters={"rope_type": "default"}),
        'rope_parameters: the key "rope_theta" is missing',
    ),
    Case(
        "rope twice",
        config(rope_parameters={"rope_type": "default", "rope_theta": 7}),
        '"rope_theta" differs from rope_parameters',
    ),
]
