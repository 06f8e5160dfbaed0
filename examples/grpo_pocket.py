"""GRPO on the bundled model: rollouts by Archer, rewards by its judge, gradients by plain torch.

    python examples/grpo_pocket.py --minutes 45 --out grpo

Every step samples some programs for each of some problems of `pocket`, rewards each by the share of hidden
tests that it passes, and moves the weights towards the better ones of each group.  Pass@1 is measured on
`pocket-dev`, which is never trained on.

The rollouts are decoded by `entropy`: where it fills masks depends on the logits alone, never on the
token that is drawn there.  So the probability of a rollout is the product over its updates of the
probabilities of the tokens that the update wrote, given what stood before: `written_at` tells both.  The
trainer is 50 lines of torch with the checkpoint's tensor names; `update_weights` hands them to Archer.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

import archer
from archer.judge import FunctionCheck, Judge, Limits
from archer.tasks.registry import open_task

SAMPLED = {"method": "entropy", "steps": 24, "temperature": 1.0, "length": 48}
"""How rollouts are decoded: two tokens per update, however sure the model becomes."""
GREEDY = {"method": "llada-confidence", "length": 64}
"""LLaDA's own decoding, which the trained model is measured by, too."""


@dataclass(frozen=True)
class Settings:
    minutes: float = 45.0
    steps: int = 1000
    problems: int = 8
    """Per step."""
    samples: int = 8
    """Per problem: a group."""
    states: int = 3
    """Updates of each rollout that are differentiated."""
    rate: float = 3e-5
    blame: float = 0.2
    """How much a program that is worse than its group counts, compared with one that is better."""
    seed: int = 0
    evaluated: int = 200
    """Problems of `pocket-dev`."""
    every: int = 0
    """Steps between two evaluations; 0: before and after alone."""


class Trainer:
    """A LLaDA in plain torch, with the tensors of the checkpoint under their own names."""

    def __init__(self, folder: Path, rate: float) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        stored = load_file(folder / "model.safetensors")
        self.weights = {name: w.float().requires_grad_() for name, w in stored.items()}
        self.optimiser = torch.optim.AdamW(
            self.weights.values(), lr=rate, weight_decay=0.0, betas=(0.9, 0.99)
        )

    def logits(self, tokens: Tensor, exists: Tensor) -> Tensor:
        """Long[B, L], Bool[B, L] -> [B, L, V]; columns that do not exist are seen by nobody."""
        weights, config = self.weights, self.config
        hidden = F.embedding(tokens, weights["model.transformer.wte.weight"])
        cosine, sine = self._angles(tokens.shape[1])
        for index in range(config["n_layers"]):
            layer = f"model.transformer.blocks.{index}."
            normed = self._norm(hidden, f"{layer}attn_norm.weight")
            queries, keys, values = (
                F.linear(normed, weights[f"{layer}{name}_proj.weight"])
                .unflatten(-1, (config["n_heads"], -1))
                .transpose(1, 2)
                for name in "qkv"
            )
            mixed = F.scaled_dot_product_attention(
                _rotated(queries, cosine, sine),
                _rotated(keys, cosine, sine),
                values,
                attn_mask=exists[:, None, None],
            )
            mixed = mixed.transpose(1, 2).flatten(2)
            hidden = hidden + F.linear(mixed, weights[f"{layer}attn_out.weight"])
            normed = self._norm(hidden, f"{layer}ff_norm.weight")
            gate = F.silu(F.linear(normed, weights[f"{layer}ff_proj.weight"]))
            inner = gate * F.linear(normed, weights[f"{layer}up_proj.weight"])
            hidden = hidden + F.linear(inner, weights[f"{layer}ff_out.weight"])
        normed = self._norm(hidden, "model.transformer.ln_f.weight")
        return F.linear(normed, weights["model.transformer.ff_out.weight"])

    def _norm(self, hidden: Tensor, name: str) -> Tensor:
        return F.rms_norm(
            hidden, hidden.shape[-1:], self.weights[name], self.config["rms_norm_eps"]
        )

    def _angles(self, columns: int) -> tuple[Tensor, Tensor]:
        size = self.config["d_model"] // self.config["n_heads"]
        frequency = self.config["rope_theta"] ** (-torch.arange(0, size, 2) / size)
        angle = torch.arange(columns)[:, None] * frequency
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()

    def step(self, loss: Tensor) -> None:
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        self.optimiser.step()


def _rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-high, low), dim=-1) * sine


@dataclass(frozen=True)
class Problem:
    """What the model is asked, and what its program is tested by."""

    prompt: str
    header: str
    visible: tuple[str, ...]
    hidden: tuple[str, ...]

    def check(self, body: str, tests: Sequence[str]) -> FunctionCheck:
        name = self.header.removeprefix("def ").partition("(")[0]
        program = f"{self.header}{body.rstrip()}\n"
        return FunctionCheck(program, name, "\n".join(tests), expose=())


def problems_of(task: str) -> list[Problem]:
    return [
        Problem(
            sample.messages[0]["content"],
            sample.row["header"],
            tuple(sample.row["visible"]),
            tuple(sample.row["hidden"]),
        )
        for sample in open_task(task).samples()
    ]


def rewards(judge: Judge, asked: Sequence[Problem], texts: Sequence[str]) -> list[float]:
    """The share of hidden tests that each program passes."""
    wanted = {
        (problem, text): [problem.check(text, [test]) for test in problem.hidden]
        for problem, text in set(zip(asked, texts, strict=True))
    }
    whole = {each: each[0].check(each[1], each[0].hidden) for each in wanted}
    share = {each: float(judge.grade(check).outcome == "pass") for each, check in whole.items()}
    for each, checks in wanted.items():
        if not share[each]:
            passed = sum(judge.grade(check, again=False).outcome == "pass" for check in checks)
            share[each] = passed / len(checks)
    return [share[each] for each in zip(asked, texts, strict=True)]


@dataclass(frozen=True)
class Rollout:
    """One sampled program and how much better it is than those beside it."""

    prompt: list[int]
    tokens: tuple[int, ...]
    written_at: tuple[int, ...]
    advantage: float


def objective(
    trainer: Trainer, rollouts: Sequence[Rollout], mask: int, states: int, draw: random.Random
) -> Tensor:
    """Minus advantage x log-probability per token, from a few updates of each rollout."""
    rows: list[tuple[Rollout, int, float]] = []
    for each in rollouts:
        updates = sorted(set(each.written_at))
        chosen = draw.sample(updates, min(states, len(updates)))
        rows += [(each, update, len(updates) / len(chosen)) for update in chosen]
    width = max(len(each.prompt) + len(each.tokens) for each, _, _ in rows)
    tokens = torch.full((len(rows), width), mask)
    goal = torch.zeros_like(tokens)
    weight = torch.zeros(tokens.shape)
    exists = torch.zeros(tokens.shape, dtype=torch.bool)
    for row, (each, update, times) in enumerate(rows):
        first, last = len(each.prompt), len(each.prompt) + len(each.tokens)
        written = torch.tensor(each.written_at)
        final = torch.tensor(each.tokens)
        tokens[row, :first] = torch.tensor(each.prompt)
        tokens[row, first:last] = torch.where(written < update, final, mask)
        goal[row, first:last] = final
        weight[row, first:last] = (written == update) * times * each.advantage / len(each.tokens)
        exists[row, :last] = True
    scores = trainer.logits(tokens, exists)
    scores[..., mask] = -torch.inf  # never drawn
    chosen = weight != 0
    found = scores[chosen].log_softmax(-1).gather(1, goal[chosen][:, None]).squeeze(1)
    return -(found * weight[chosen]).sum() / len(rollouts)


def group_advantages(found: Sequence[float]) -> list[float]:
    mean = sum(found) / len(found)
    spread = math.sqrt(sum((each - mean) ** 2 for each in found) / len(found))
    return [(each - mean) / (spread + 1e-4) for each in found]


def wilson(passed: int, n: int, z: float = 1.96) -> tuple[float, float]:
    middle, half = passed + z * z / 2, z * math.sqrt(passed * (n - passed) / n + z * z / 4)
    return (middle - half) / (n + z * z), (middle + half) / (n + z * z)


def evaluate(model: archer.Model, judge: Judge, problems: Sequence[Problem]) -> dict[str, Any]:
    """Pass@1 on all tests, greedy and sampled, with Wilson's intervals."""
    found: dict[str, Any] = {}
    for name, how in (("greedy", GREEDY), ("sampled", SAMPLED)):
        done = model.generate([each.prompt for each in problems], **how, seed=1)  # type: ignore[arg-type]
        checks = [
            problem.check(each.text or "", problem.visible + problem.hidden)
            for problem, each in zip(problems, done, strict=True)
        ]
        passed = sum(verdict.outcome == "pass" for _, verdict in judge.grade_many(checks))
        low, high = wilson(passed, len(problems))
        found[name] = {"passed": passed, "n": len(problems), "low": low, "high": high}
    return found


def train(settings: Settings) -> Iterator[dict[str, Any]]:
    """One record per evaluation and per step."""
    end = time.monotonic() + 60 * settings.minutes
    draw = random.Random(settings.seed)
    torch.manual_seed(settings.seed)
    model = archer.load("pocket")
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model.save(Path(folder) / "pocket"), settings.rate)
    mask = trainer.config["mask_token_id"]
    training, dev = problems_of("pocket"), problems_of("pocket-dev")[: settings.evaluated]
    with Judge(Limits(cpu_seconds=2, wall_seconds=6), workers=1) as judge:
        yield {"step": 0, "evaluation": evaluate(model, judge, dev)}
        last = 0.0
        for step in range(1, settings.steps + 1):
            begun = time.monotonic()
            chosen = draw.sample(training, settings.problems)
            done = model.generate(
                [each.prompt for each in chosen],
                **SAMPLED,  # type: ignore[arg-type]
                n=settings.samples,
                seed=settings.seed * 100_000 + step,
            )
            asked = [each for each in chosen for _ in range(settings.samples)]
            found = rewards(judge, asked, [each.text or "" for each in done])
            rollouts = []
            for first in range(0, len(found), settings.samples):
                group = slice(first, first + settings.samples)
                prompt = model.encode(asked[first].prompt)
                for each, advantage in zip(
                    done[group], group_advantages(found[group]), strict=True
                ):
                    weight = advantage * (1.0 if advantage > 0 else settings.blame)
                    if weight:
                        rollouts.append(Rollout(prompt, each.tokens, each.written_at, weight))
            if rollouts:
                trainer.step(objective(trainer, rollouts, mask, settings.states, draw))
                model.update_weights(trainer.weights)
            seconds = time.monotonic() - begun
            last = max(last, seconds)
            yield {
                "step": step,
                "reward": sum(found) / len(found),
                "solved": sum(each == 1 for each in found) / len(found),
                "updates": sum(each.updates for each in done) / len(done),
                "version": model.weights_version,
                "seconds": seconds,
            }
            if settings.every and step % settings.every == 0:
                yield {"step": step, "evaluation": evaluate(model, judge, dev)}
            if time.monotonic() + last > end:
                break
        yield {"step": step, "evaluation": evaluate(model, judge, dev)}


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in asdict(Settings()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--out", type=Path, help="where the records go, as grpo.json")
    given = vars(parser.parse_args(arguments))
    out = given.pop("out")
    settings, records = Settings(**given), []
    for record in train(settings):
        records.append(record)
        print(json.dumps(record), flush=True)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            whole = {"settings": asdict(settings), "sampled": SAMPLED, "greedy": GREEDY}
            (out / "grpo.json").write_text(json.dumps(whole | {"records": records}, indent=1))
    return records


if __name__ == "__main__":
    main()
