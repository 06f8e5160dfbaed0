"""Recorded trajectories of published code and reference logits, on tiny checkpoints of all families."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archer.bench.transformers_pass import library_pass, library_twin
from archer.checks import replay
from archer.errors import BadRequest, Incompatible
from archer.methods.catalogue import DECODERS, POLICIES
from archer.methods.compatibility import matrix
from archer.model import Model, load
from archer.network.shape import DENSE, Blocks
from archer.passes.canvas import Canvas
from archer.results.step import Step
from conftest import shared
from support import naive
from support.networks import Backbone
from support.one_pass import ask, blank, canvas_of

DENSE_MODELS = ("llada-tiny-a", "llada-tiny-b", "dream-tiny")
MOE = ("lladamoe-tiny-a", "lladamoe-tiny-b")
CAUSAL = ("llada2-tiny-a", "llada2-tiny-b")
A2D = ("a2d-qwen2-tiny-a", "a2d-qwen2-tiny-b", "a2d-qwen3-tiny-a", "a2d-qwen3-tiny-b")
ILLADA = ("illada-tiny-a", "illada-tiny-b")
OPEN_DCODER = ("opendcoder-tiny-a", "opendcoder-tiny-b")
SDAR = ("sdar-tiny-a", "sdar-tiny-b")
ROUGH = ("a2d-qwen3-tiny-b", "sdar-tiny-a")
"""In float32 their logits are off by 5.2e-5 and 5.6e-5; those of transformers' own classes, by 6.1e-5."""
BD3LM = ("a2d-qwen2-bd3lm-tiny-a", "a2d-qwen3-bd3lm-tiny-a")
FULL_2026 = A2D + ILLADA + OPEN_DCODER
"""Full attention; iLLaDA's head is the embedding, and in one of two folders stored all the same."""
FOLDERS = {
    "golden": DENSE_MODELS,
    "golden-moe": MOE + CAUSAL,
    "golden-2026": (*FULL_2026, *SDAR, *BD3LM, "llada-tiny-c"),
}
ALIGNED_ONLY = {
    "dkv_decode",
    "dkv_greedy",
    "dllm_cache",
    "fastdllm_dual",
    "fastdllm_prefix",
    "wino",
}
SAMPLERS = ("llada2", "llada2_edit")
SAMPLERS_2026 = {
    "p2": OPEN_DCODER,
    **dict.fromkeys(("illada_var", "illada_think"), ILLADA),
    "dllm_mdlm": A2D,
    "a2d_bd3lm": BD3LM,
    **dict.fromkeys(("sdar_dynamic", "sdar_static", "sdar_sequential", "sdar_top1"), SDAR),
}
INFILLING = ("infill", "dllm_infill")
SCHEDULES = ("archer_confidence", "archer_saber", "confidence", "saber")
RECORDED = [
    *(
        (name, method)
        for name in DENSE_MODELS
        for method in sorted(replay.METHODS)
        if method not in (*SAMPLERS, *SAMPLERS_2026, *INFILLING)
        and (name != "dream-tiny" or method not in ALIGNED_ONLY)
    ),
    *((name, method) for name in CAUSAL for method in SAMPLERS),
    *((name, method) for name in MOE + A2D + ILLADA for method in SCHEDULES),
    *((name, method) for method, names in SAMPLERS_2026.items() for name in names),
    *(
        (name, method)
        for name in ("a2d-qwen3-tiny-a", "a2d-qwen3-tiny-b", "llada-tiny-c")
        for method in INFILLING
    ),
]


def golden(name: str, *parts: str) -> Path:
    """A file or folder beside the checkpoint of this name."""
    folder = next(folder for folder, names in FOLDERS.items() if name in names)
    return shared("data", folder, *parts)


@cache
def checkpoint(name: str, dtype: str = "float32") -> Model:
    return load(golden(name, "checkpoints", name), device="cpu", dtype=dtype)


def cases(name: str, method: str) -> list[replay.Case]:
    return replay.read_cases([golden(name, "traces", f"{name}.{method}.jsonl")])


def drawn_prompts(name: str, count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of 1 to 40 ids without the mask and the end."""
    model = checkpoint(name)
    folder = model.folder
    banned = {folder.mask, *folder.eos}
    allowed = [id for id in range(folder.shape.vocabulary) if id not in banned]
    source = np.random.default_rng(seed)
    return [source.choice(allowed, size=source.integers(1, 41)).tolist() for _ in range(count)]


def states(steps: list[Step[Any]]) -> list[list[int]]:
    return [step.after.response[0].tolist() for step in steps]


@pytest.mark.parametrize(("folder", "names"), FOLDERS.items())
def test_every_recorded_file_is_replayed(folder: str, names: tuple[str, ...]) -> None:
    """None is unsupported, and none is left out below."""
    files = {path.name for path in shared("data", folder, "traces").glob("*.jsonl")}
    assert files == {f"{name}.{method}.jsonl" for name, method in RECORDED if name in names}


@pytest.mark.parametrize(("name", "method"), RECORDED)
def test_every_recorded_trajectory_is_reproduced(name: str, method: str) -> None:
    recorded = cases(name, method)
    outcome = replay.ReplayReport()
    for _, mismatches in replay.replay(recorded, golden(name, "checkpoints")):
        outcome.count(mismatches)
    assert outcome.mismatches == []
    assert outcome.identical == outcome.total == len(recorded) > 0


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("method", SAMPLERS)
def test_with_the_exact_cache_the_recorded_states_come_out(
    name: str, method: str, every: int
) -> None:
    """First call: the complete prompt blocks and one more; later ones two blocks at most."""
    ours = replay.METHODS[method].replace("eager", "archer")
    for case in cases(name, method)[::every]:
        settings = {replay.SETTINGS.get(key, key): value for key, value in case.settings.items()}
        steps = list(checkpoint(name).stream(case.prompt, ours, **settings))
        block = case.settings["block_length"]
        assert states(steps) == case.states
        fed = [step.calls[0].fed for step in steps]
        assert fed[0] == len(case.prompt) // block * block + block
        assert set(fed[1:]) <= {block, 2 * block}
        assert [step.calls[0].distance for step in steps] == [0] * len(steps)
        assert steps[-1].after.result(0).tolist() == case.returned


@pytest.mark.parametrize(
    ("name", "widest"),
    [
        *((name, (1e-6, 1e-3)) for name in DENSE_MODELS),
        *((name, (1e-6, 5e-5)) for name in MOE + CAUSAL),
        *(
            (name, (1e-10, 1e-4 if name in ROUGH else 5e-5))
            for name in (*FULL_2026, *SDAR, *BD3LM, "llada-tiny-c")
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_reference_logits(name: str, widest: tuple[float, float], dtype: str) -> None:
    tolerance = widest[dtype == "float32"]
    model = checkpoint(name, dtype)
    reference = np.load(golden(name, "logits", f"{name}.npz"))
    prompt = reference["prompt"].tolist()
    block = int(reference["block_length"]) if "block_length" in reference else None
    kind = DENSE if block is None else Blocks(block, from_response=name in BD3LM)
    net = Backbone(model.network, model.folder.mask)
    first = len(prompt) - net.shift

    def rows(key: str) -> torch.Tensor:
        raw = torch.from_numpy(reference[key])
        return raw[first : len(raw) - net.shift]

    def canvas(key: str) -> Canvas:
        response = torch.from_numpy(reference[key])[None].long()
        return canvas_of(prompt, response, net.mask, kind)

    for response, logits in (("masked_response", "masked_logits"), ("response", "full_logits")):
        asked = canvas(response)
        (ours,), _, _ = ask(net, asked, blank(net.network, asked), asked.everything())
        assert (ours.double() - rows(logits)).abs().max() < tolerance
    anchor, state = canvas("anchor_response"), canvas("response")
    memory = blank(net.network, anchor)
    ask(net, anchor, memory, anchor.everything())
    whole_prompt = np.arange(state.columns)[None] >= state.response.start
    (stale,), _, _ = ask(net, state, memory, whole_prompt)
    theirs = torch.from_numpy(reference["cached_logits"])
    assert (stale.double() - theirs).abs().max() < tolerance
    if block is not None:
        memory = blank(net.network, anchor)
        ask(net, anchor, memory, anchor.everything())
        (kept,), _, _ = ask(net, state, memory, state.revisable())
        full = rows("full_logits")
        assert (kept.double() - full).abs().max() < tolerance
        assert name in BD3LM or (theirs - full).abs().max() > 0.1


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_or_a_fully_bidirectional_llada2_would_be_found_out(name: str) -> None:
    """The reference logits against the plain twin under other attention rules."""
    model = checkpoint(name, "float64")
    reference = np.load(golden(name, "logits", f"{name}.npz"))
    tokens = torch.from_numpy(np.concatenate((reference["prompt"], reference["response"]))).long()
    expected = torch.from_numpy(reference["full_logits"])
    block = int(reference["block_length"])

    def error(rule: int | None) -> float:
        raw, _ = naive.forward(model.network, tokens, attention_block=rule)
        return float((raw - expected).abs().max())

    assert error(block) < 1e-6
    assert min(error(1), error(None), error(2 * block), error(block // 2)) > 0.1


@pytest.mark.parametrize("name", MOE + CAUSAL + FULL_2026 + SDAR + BD3LM)
def test_the_library_twin_agrees(name: str) -> None:
    """Qwen2, Qwen3, Llama, Qwen3-MoE and GLM-4-MoE with the same weights."""
    model = checkpoint(name)
    twin = library_twin(model.network)
    kind = Blocks(8, from_response=name in BD3LM) if name in CAUSAL + SDAR + BD3LM else DENSE
    net = Backbone(model.network, model.folder.mask)
    for seed in range(3):
        prompt, response = drawn_prompts(name, 2, seed)
        asked = canvas_of(prompt, torch.tensor([response]), net.mask, kind)
        (ours,), _, _ = ask(net, asked, blank(net.network, asked), asked.everything())
        asked_of = torch.tensor(prompt + response)
        theirs = library_pass(twin, asked_of, len(response) + net.shift, kind, len(prompt))
        theirs = theirs[: len(response)]
        assert (ours - theirs).abs().max() < (5e-5 if name in MOE + CAUSAL else 1e-4)


@pytest.mark.parametrize("name", CAUSAL)
def test_keys_and_values_of_complete_prompt_blocks_never_change(name: str) -> None:
    """Bit for bit, whatever the response is."""
    model = checkpoint(name)
    net = Backbone(model.network, model.folder.mask)
    source = np.random.default_rng(4)
    for prompt in drawn_prompts(name, 6, seed=5):
        kept = []
        for _ in range(3):
            response = source.integers(0, model.folder.shape.vocabulary, (1, 24))
            asked = canvas_of(prompt, torch.from_numpy(response), net.mask, Blocks(8))
            memory = blank(net.network, asked)
            ask(net, asked, memory, asked.everything())
            full = len(prompt) // 8 * 8
            kept.append((memory.store.keys[..., :full, :], memory.store.values[..., :full, :]))
        for keys, values in kept[1:]:
            assert torch.equal(keys, kept[0][0])
            assert torch.equal(values, kept[0][1])


def settings_of(draw: np.random.Generator, method: str) -> dict[str, Any]:
    """Settings of a drawn case of a sampler with blocks."""
    if method == "bd3lm":
        length, block = int(draw.integers(1, 33)), int(draw.choice([4, 8, 16]))
        least = -(-length // block)
        return {"length": length, "block": block, "steps": int(draw.integers(least, length + 1))}
    own: dict[str, Any] = {
        "length": int(draw.integers(1, 33)),
        "block": int(draw.choice([4, 8, 16])),
        "threshold": float(draw.choice([0.2, 0.5, 0.9])),
        "eos_early_stop": bool(draw.integers(2)),
    }
    if method == "sdar":
        own["strategy"] = str(draw.choice(["dynamic", "static", "sequential"]))
    if method in ("llada2", "sdar"):
        return own | {"steps": int(draw.integers(1, 17))}
    return own | {
        "editing_threshold": float(draw.choice([0.0, 0.3, 0.7])),
        "max_post_steps": int(draw.integers(0, 5)),
        "num_to_transfer": int(draw.integers(1, 4)),
    }


@pytest.mark.parametrize(("count", "seed"), [(4, 1), pytest.param(50, 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, method) for name in CAUSAL for method in ("llada2", "llada2-edit")),
        *((name, "sdar") for name in SDAR),
        *((name, "bd3lm") for name in BD3LM),
    ],
)
def test_cached_decisions_are_the_uncached_ones(
    name: str, method: str, count: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    for prompt in drawn_prompts(name, count, seed):
        settings = settings_of(draw, method)
        runs = [
            list(checkpoint(name, "float64").stream(prompt, f"{method}+{cache}", **settings))
            for cache in ("eager", "archer:1", "archer:inf")
        ]
        assert states(runs[0]) == states(runs[1]) == states(runs[2])


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("decoder", ["saber", "threshold:0.4", "editing"])
def test_any_decoder_is_cached_exactly_on_llada2(name: str, decoder: str) -> None:
    """The attention rule is then the family's, 32."""
    for prompt in (drawn_prompts(name, 1, 3)[0], list(range(20, 57))):
        for block in (None, 4):
            runs = [
                list(
                    checkpoint(name, "float64").stream(
                        prompt, f"{decoder}+{cache}", length=12, block=block
                    )
                )
                for cache in ("eager", "archer:2", "age:3", "late:0.5", "surprise:0.3")
            ]
            assert all(states(run) == states(runs[0]) for run in runs[1:])
            fed = [sum(s.calls[0].fed for s in run) for run in runs]
            assert fed[3] == fed[4] == fed[1] <= fed[0]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", MOE + CAUSAL + FULL_2026 + SDAR + BD3LM)
def test_a_batch_equals_singles(name: str) -> None:
    """Prompts of unequal length: blocks are counted from each row's own first token, or its prompt's end."""
    model = checkpoint(name, "float64")
    prompts = drawn_prompts(name, 4, seed=8)
    own = [] if name in MOE else ["llada2", "llada2-edit"] if name in CAUSAL else [None]
    for method in ["archer", *own]:
        settings: dict[str, Any] = {"length": 21}
        if method in ("llada2", "llada2-edit"):
            settings |= {"block": 8, "threshold": 0.4}
        together = model.stream(prompts, method, **settings).finish()
        for prompt, batched in zip(prompts, together, strict=True):
            (alone,) = model.generate(prompt, method, **settings)
            assert batched.tokens == alone.tokens
            assert batched.updates == alone.updates
            assert batched.full_passes == alone.full_passes


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MOE + FULL_2026)
def test_radius_one_is_eager(name: str, count: int) -> None:
    model = checkpoint(name, "float64")
    for prompt in drawn_prompts(name, count, seed=6):
        eager = states(list(model.stream(prompt, "saber", length=12)))
        assert states(list(model.stream(prompt, "archer:1", length=12))) == eager


def recorded_prompts(name: str, method: str) -> list[list[int]]:
    return [list(prompt) for prompt in dict.fromkeys(tuple(c.prompt) for c in cases(name, method))]


@pytest.mark.parametrize("name", DENSE_MODELS)
def test_a_batch_of_eight_equals_singles(name: str) -> None:
    """Token for token in float32, with the recorded prompts."""
    model = checkpoint(name)
    prompts = recorded_prompts(name, "archer_saber")[:8]
    for radius in (4, 8):
        together = model.generate(prompts, method="archer", radius=radius, length=24)
        for prompt, batched in zip(prompts, together, strict=True):
            (alone,) = model.generate(prompt, method="archer", radius=radius, length=24)
            assert batched.tokens == alone.tokens
            assert batched.full_passes == alone.full_passes


@pytest.mark.parametrize("name", DENSE_MODELS)
def test_radius_one_is_saber_on_the_recorded_prompts(name: str) -> None:
    model = checkpoint(name)
    for prompt in recorded_prompts(name, "saber"):
        (eager,) = model.generate(prompt, method="saber", length=24)
        (cached,) = model.generate(prompt, method="archer", radius=1, length=24)
        assert eager.tokens == cached.tokens
        assert (eager.updates, 0) == (cached.updates, cached.cached_passes)


FRESH = {"response_interval": 1}
IDENTITIES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("confidence+prefix", {}, "confidence+dual", {}),
    ("confidence+dual", {}, "confidence+archer:inf", {}),
    ("confidence+dkv-decode:1", {}, "confidence+eager", {}),
    ("fixed-order+dkv-greedy:1", {}, "fixed-order", {}),
    ("saber+dllm-cache:1", FRESH, "saber+age:1", {}),
    ("dllm-cache:1", FRESH, "confidence", {}),
    ("dllm-cache:4", {"response_interval": 3, "ratio": 1.0}, "dllm-cache:4", FRESH),
    ("factor:0", {}, "confidence", {}),
    ("threshold:1", {}, "confidence", {}),
    ("entropy-bound:0", {}, "entropy", {}),
    ("saber+archer:1", {"guidance": 0.7}, "saber+eager", {"guidance": 0.7}),
    ("threshold+archer:1", {"guidance": 0.7}, "threshold+eager", {"guidance": 0.7}),
    ("confidence", {"guidance": 0.0}, "confidence", {}),
]
RADIUS_ONE: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    (f"{name}+archer:1", {}, f"{name}+eager", {})
    for name in matrix(DECODERS, POLICIES)
    if name != "saber"
]
"""Saber itself has a test of its own, on more prompts."""


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("name", "left", "its", "right", "others"),
    [
        *((name, *each) for name in MOE for each in IDENTITIES),
        *((MOE[index % 2], *each) for index, each in enumerate(RADIUS_ONE)),
    ],
)
def test_identities_of_the_dense_families_hold_for_llada_moe(
    name: str, left: str, its: dict[str, Any], right: str, others: dict[str, Any]
) -> None:
    model = checkpoint(name, "float64")
    (prompt,) = drawn_prompts(name, 1, seed=7)
    one = states(list(model.stream(prompt, left, length=9, **its)))
    assert one == states(list(model.stream(prompt, right, length=9, **others)))


@pytest.mark.parametrize("name", MOE)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("confidence+dual", "confidence+eager"),
        ("confidence+dkv-decode:9", "confidence+eager"),
        ("saber+archer:inf", "saber+eager"),
    ],
)
def test_and_what_is_not_the_same_differs(name: str, left: str, right: str) -> None:
    """The caches above do something on these models."""
    model = checkpoint(name, "float64")

    def found(method: str) -> list[Any]:
        prompts = drawn_prompts(name, 2, seed=7)
        return [states(list(model.stream(prompt, method, length=12))) for prompt in prompts]

    assert found(left) != found(right)


@pytest.mark.parametrize(
    ("method", "phrase"),
    [
        ("wino", "columns after the response"),
        ("fast-dllm-cache", "Choose eager, archer, late, surprise or age"),
        ("dllm-cache", "Choose eager, archer, late, surprise or age"),
        ("saber+dkv-greedy", "Choose eager, archer, late, surprise or age"),
    ],
)
def test_what_does_not_go_with_block_causal_attention_is_refused(method: str, phrase: str) -> None:
    with pytest.raises(Incompatible, match=phrase):
        checkpoint(CAUSAL[0]).request([5, 6], method)


@pytest.mark.parametrize("method", ["llada2", "llada2-edit", "llada2+eager"])
def test_the_samplers_of_llada2_are_refused_where_attention_is_full(method: str) -> None:
    with pytest.raises(Incompatible, match="made for block-causal attention"):
        checkpoint(MOE[0]).request([5, 6], method)


@pytest.mark.parametrize(
    ("name", "method", "block"),
    [
        ("a2d-qwen3-tiny-a", "a2d", 32),
        ("a2d-qwen2-bd3lm-tiny-a", "bd3lm", 32),
        ("sdar-tiny-a", "sdar", 4),
        ("opendcoder-tiny-a", "p2", None),
        ("llada2-tiny-a", "llada2", 32),
        ("illada-tiny-a", "illada", 32),
        ("llada-tiny-a", "archer-doubt", None),
    ],
)
def test_a_model_is_decoded_by_the_method_it_was_released_with(
    name: str, method: str, block: int | None
) -> None:
    """And by the paper's where a radius is given; any other method that fits can be named."""
    model = checkpoint(name)
    chosen = model.request([7, 8], length=16).method
    assert (chosen.name, chosen.settings.get("block")) == (method, block)
    assert model.request([7, 8], length=16, radius=4).method.name == "archer"
    assert model.request([7, 8], "saber", length=16).method.name == "saber"


def test_the_head_of_these_folders_is_the_embedding_or_its_own() -> None:
    for name in (*A2D, *ILLADA, *OPEN_DCODER):
        network = checkpoint(name).network
        assert network.head is network.embedding
    assert checkpoint(ILLADA[1]).folder.copies
    assert checkpoint(SDAR[0]).network.head is not checkpoint(SDAR[0]).network.embedding


def test_block_models_are_told_by_their_names_alone() -> None:
    """The configs are of the same kind; whoever loads a folder may say what it is."""
    folder = golden(BD3LM[0], "checkpoints", BD3LM[0])
    assert load(folder).folder.architecture.family == "a2d-qwen2-bd3lm"
    assert load(folder, family="a2d-qwen2").folder.shape.attention == DENSE
    other = golden(A2D[2], "checkpoints", A2D[2])
    assert load(other, family="opdlm").folder.shape.attention == Blocks(4, from_response=True)
    with pytest.raises(BadRequest, match='says "A2DQwen3LMHeadModel"'):
        load(other, family="sdar")
    with pytest.raises(BadRequest, match="There is no family 'a2d'"):
        load(other, family="a2d")
