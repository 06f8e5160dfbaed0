"""GRPO on the bundled model: rollouts by Archer, rewards by its judge, gradients by plain torch.

    python examples/grpo_pocket.py --minutes 45 --out grpo

Every step samples some programs for each of some problems of `pocket`, rewards those that pass all tests,
and moves the weights towards the better ones of each group.  Pass@1 is measured on `pocket-dev`, which is
never trained on.  Called again with the same `--out`, it goes on where it was ended.

The rollouts are decoded by `entropy`: where it fills masks depends on the logits alone, never on the
token that is drawn there.  So the probability of a rollout is the product over its updates of the
probabilities of the tokens that the update wrote, given what stood before: `written_at` tells both, and
`confidences` tell which updates were in doubt: the others have next to no gradient.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

import archer
from archer.judge import Judge
from archer.machine.description import describe
from archer.tasks.base import Sample
from archer.tasks.registry import open_task

SAMPLED: dict[str, Any] = {"method": "entropy", "steps": 24, "length": 48}
"""How rollouts are decoded: two tokens per update, however sure the model becomes."""
GREEDY: dict[str, Any] = {"method": "llada-confidence", "length": 64}
"""LLaDA's own decoding, which the trained model is measured by, too."""
TOGETHER = 64
"""Updates that are differentiated together; more take more memory."""
FASTER = 1.5
"""How much the rate may change from one step to the next."""


@dataclass(frozen=True)
class Settings:
    minutes: float = 45.0
    """In all calls, with the evaluations."""
    steps: int = 1000
    problems: int = 16
    samples: int = 8
    """Of each problem of a step: a group."""
    states: int = 3
    """Updates of each rollout that are differentiated."""
    temperature: float = 0.8
    rate: float = 3e-6
    """Of the first step: Adam's first steps have the size of the rate, whatever their gradient shows."""
    drift: float = 0.003
    """Nats by which a step may move the distribution of rollouts; the rate of the next one follows it."""
    leash: float = 0.05
    """What each nat between it and that of the first weights costs: most of what is learnt is noise."""
    seed: int = 0
    evaluated: int = 200
    """Problems of `pocket-dev`."""
    drawn: int = 4
    """Samples of each in an evaluation, beside the greedy one."""
    every: int = 0
    """Steps between two evaluations; 0: before and after alone."""


class Trainer:
    """A LLaDA in plain torch, with the tensors of the checkpoint under their own names."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        stored = load_file(folder / "model.safetensors")
        self.weights = {name: w.float().requires_grad_() for name, w in stored.items()}
        self.optimiser = torch.optim.Adam(self.weights.values(), betas=(0.9, 0.99))

    def logits(self, tokens: Tensor, exists: Tensor, wanted: Tensor) -> Tensor:
        """[B, L] each -> [wanted columns, V]; columns that do not exist are seen by nobody."""
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
        normed = self._norm(hidden[wanted], "model.transformer.ln_f.weight")
        return F.linear(normed, weights["model.transformer.ff_out.weight"])

    def _norm(self, hidden: Tensor, name: str) -> Tensor:
        size, small = hidden.shape[-1:], self.config["rms_norm_eps"]
        return F.rms_norm(hidden, size, self.weights[name], small)

    def _angles(self, columns: int) -> tuple[Tensor, Tensor]:
        size = self.config["d_model"] // self.config["n_heads"]
        frequency = self.config["rope_theta"] ** (-torch.arange(0, size, 2) / size)
        angle = torch.arange(columns)[:, None] * frequency
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos(), angle.sin()

    def step(self, rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad()

    def save(self, path: Path) -> None:
        """Weights and moments, so that training goes on as if it had not been ended."""
        kept = {f"weight/{name}": weight.detach() for name, weight in self.weights.items()}
        for name, weight in self.weights.items():
            for kind, value in self.optimiser.state[weight].items():
                kept[f"{kind}/{name}"] = value
        save_file(kept, path)

    def resume(self, path: Path) -> None:
        for key, value in load_file(path).items():
            kind, name = key.split("/")
            if kind == "weight":
                self.weights[name].data.copy_(value)
            else:
                self.optimiser.state[self.weights[name]][kind] = value


def _rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-high, low), dim=-1) * sine


def solved(
    judge: Judge, task: Any, asked: Sequence[Sample], done: Sequence[archer.Completion]
) -> list[float]:
    """1 for each program that passes all tests; the same program is run once."""
    checks, keys = {}, []
    for sample, each in zip(asked, done, strict=True):
        program = task.extract(each.text or "", sample, "as_published")
        keys.append((sample.id, program))
        (checks[keys[-1]],) = task.checks(sample, program, "extended", "as_published")
    verdicts = dict(judge.grade_many(checks.values()))
    passed = {key: verdicts[at].outcome == "pass" for at, key in enumerate(checks)}
    return [float(passed[key]) for key in keys]


def prompt_of(sample: Sample) -> str:
    return str(sample.messages[0]["content"])


@dataclass(frozen=True)
class Rollout:
    """One sampled program and how much better it is than those beside it."""

    prompt: list[int]
    done: archer.Completion
    advantage: float

    def looks(self, count: int, draw: random.Random) -> list[Look]:
        """Updates drawn by how much they were in doubt, each with how many it stands for."""
        doubt = dict.fromkeys(self.done.written_at, 0.01)
        for update, confidence in zip(self.done.written_at, self.done.confidences, strict=True):
            doubt[update] += 1 - (confidence or 0.0)
        whole = sum(doubt.values())
        drawn = draw.choices(list(doubt), list(doubt.values()), k=count)
        return [(self, update, whole / doubt[update]) for update in drawn]


Look = tuple[Rollout, int, float]
"""A rollout before one of its updates, and for how many updates this one stands."""


def written(
    trainer: Trainer, looks: Sequence[Look], temperature: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each of N tokens that were written: its look, the token, and [N, V] log-probabilities there."""
    mask = trainer.config["mask_token_id"]
    width = max(len(each.prompt) + len(each.done.tokens) for each, *_ in looks)
    tokens = torch.full((len(looks), width), mask)
    goal = torch.zeros_like(tokens)
    wrote, exists = torch.zeros(2, *tokens.shape, dtype=torch.bool)
    for row, (each, update, _) in enumerate(looks):
        first, last = len(each.prompt), len(each.prompt) + len(each.done.tokens)
        written_at, final = torch.tensor(each.done.written_at), torch.tensor(each.done.tokens)
        tokens[row, :first] = torch.tensor(each.prompt)
        tokens[row, first:last] = torch.where(written_at < update, final, mask)
        goal[row, first:last] = final
        wrote[row, first:last] = written_at == update
        exists[row, :last] = True
    scores = trainer.logits(tokens, exists, wrote) / temperature
    scores[:, mask] = -1e9  # never drawn
    return wrote.nonzero()[:, 0], goal[wrote], scores.log_softmax(-1)


def log_probabilities(trainer: Trainer, looks: Sequence[Look], temperature: float) -> Tensor:
    """[looks]: of all that an update of a rollout wrote, given what stood before it."""
    rows, goal, found = written(trainer, looks, temperature)
    return torch.zeros(len(looks)).index_add(0, rows, found.gather(1, goal[:, None]).squeeze(1))


def improve(
    trainer: Trainer,
    reference: Trainer,
    rollouts: Sequence[Rollout],
    settings: Settings,
    rate: float,
    draw: random.Random,
) -> dict[str, float]:
    """One step towards the better rollouts; returns by how many nats per rollout it has moved, and in all."""
    looks = [look for each in rollouts for look in each.looks(settings.states, draw)]
    before, away = [], 0.0
    for at in range(0, len(looks), TOGETHER):
        part = looks[at : at + TOGETHER]
        rows, goal, found = written(trainer, part, settings.temperature)
        with torch.no_grad():
            first = written(reference, part, settings.temperature)[2]
        count = torch.tensor([count for *_, count in part]) / len(looks)
        advantage = torch.tensor([each.advantage for each, *_ in part])
        chosen = found.gather(1, goal[:, None]).squeeze(1)
        apart = (count[rows] * (found.exp() * (found - first)).sum(-1)).sum()
        worth = ((count * advantage)[rows] * chosen).sum()
        (settings.leash * apart - worth).backward()  # type: ignore[no-untyped-call]
        before.append(torch.zeros(len(part)).index_add(0, rows, chosen.detach()))
        away += float(apart.detach())
    trainer.step(rate)
    checked = slice(None, None, -(-len(looks) // TOGETHER))
    with torch.no_grad():
        after = log_probabilities(trainer, looks[checked], settings.temperature)
    ratio = after - torch.cat(before)[checked]
    counts = torch.tensor([count for *_, count in looks[checked]])
    return {"moved": float((counts * (ratio.exp() - 1 - ratio)).mean()), "away": away}


def grouped(
    model: archer.Model,
    asked: Sequence[Sample],
    done: Sequence[archer.Completion],
    rewards: Sequence[float],
    samples: int,
) -> list[Rollout]:
    """The rollouts with their advantage over the mean of their group; groups without spread teach nothing."""
    found = []
    for first in range(0, len(rewards), samples):
        own = rewards[first : first + samples]
        prompt = model.encode(prompt_of(asked[first]))
        for each, reward in zip(done[first : first + samples], own, strict=True):
            if min(own) < max(own):
                found.append(Rollout(prompt, each, reward - statistics.fmean(own)))
    return found


def interval(values: Sequence[float]) -> dict[str, float]:
    """Their mean, and 95 % around it."""
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - 1.96 * error, "high": mean + 1.96 * error}


class Run:
    """A training that is written down step by step, and goes on from what was written down."""

    def __init__(self, settings: Settings, out: Path) -> None:
        self.settings, self.out, self.file = settings, out, out / "grpo.json"
        out.mkdir(parents=True, exist_ok=True)
        self.model = archer.load("pocket")
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(Path(folder) / "pocket")
            self.trainer, self.first = (Trainer(Path(folder) / "pocket") for _ in range(2))
        self.task: Any = open_task("pocket")
        self.records: list[dict[str, Any]] = []
        if self.file.exists():
            written = json.loads(self.file.read_text())
            free = {"minutes": 0, "steps": 0}
            if written["settings"] | free != asdict(settings) | free:
                raise SystemExit(f"{self.file} was made with other settings. Give another --out.")
            self.records = written["records"]
            if self._done():
                self.trainer.resume(self._weights())
                self.model.update_weights(self.trainer.weights)

    def _done(self) -> int:
        return int(self.records[-1]["step"]) if self.records else 0

    def _weights(self) -> Path:
        return self.out / f"trainer-{self._done()}.safetensors"

    def _write(self, record: dict[str, Any]) -> None:
        """The records name the weights that belong to them, so a run can be ended at any moment."""
        print(json.dumps(record), flush=True)
        self.records.append(record)
        if "reward" in record:
            self.trainer.save(self._weights())
        about: dict[str, Any] = {
            "settings": asdict(self.settings),
            "sampled": SAMPLED,
            "greedy": GREEDY,
        }
        about["machine"] = describe() | {"threads": torch.get_num_threads()}
        about["date"] = time.strftime("%Y-%m-%d")
        new, lines = self.file.with_suffix(".new"), ",\n".join(map(json.dumps, self.records))
        new.write_text(f'{json.dumps(about)[:-1]}, "records": [\n{lines}\n]}}\n')
        new.replace(self.file)
        for old in {*self.out.glob("trainer-*.safetensors")} - {self._weights()}:
            old.unlink()

    def go(self) -> None:
        """Evaluate, train until the time is up, evaluate again."""
        with Judge(self.task.limits, workers=1) as judge:
            if not self.records:
                self._write(self._evaluation(judge))
            while self._done() < self.settings.steps and self._time_left():
                self._write(self._step(judge))
                if self.settings.every and self._done() % self.settings.every == 0:
                    self._write(self._evaluation(judge))
            if "reward" in self.records[-1]:
                self._write(self._evaluation(judge))

    def _time_left(self) -> bool:
        """For one more step and the last evaluation; neither takes longer than what took longest."""
        spent = [each["seconds"] for each in self.records]
        return sum(spent) + max(spent[1:], default=0.0) + spent[0] < 60 * self.settings.minutes

    def _evaluation(self, judge: Judge) -> dict[str, Any]:
        """On each problem whether the greedy program passes all tests, and the share of samples that do."""
        begun, task, settings = time.monotonic(), open_task("pocket-dev"), self.settings
        samples, shares = task.samples()[: settings.evaluated], {}
        sampled = SAMPLED | {"temperature": settings.temperature}
        for name, how, count in (("greedy", GREEDY, 1), ("sampled", sampled, settings.drawn)):
            passed = solved(judge, task, *self._rollouts(samples, count, settings.seed, how))
            groups = [passed[at : at + count] for at in range(0, len(passed), count)]
            shares[name] = [statistics.fmean(own) for own in groups]
        first = next((each["solved"] for each in self.records if "solved" in each), shares)
        pairs = {name: zip(first[name], own, strict=True) for name, own in shares.items()}
        return {
            "step": self._done(),
            "pass@1": {name: interval(own) for name, own in shares.items()},
            "gain": {name: interval([b - a for a, b in own]) for name, own in pairs.items()},
            "seconds": time.monotonic() - begun,
            "solved": shares,
        }

    def _rollouts(
        self, samples: Sequence[Sample], n: int, seed: int, how: dict[str, Any]
    ) -> tuple[list[Sample], list[archer.Completion]]:
        """What was asked and written, N times for each problem."""
        done = self.model.generate([prompt_of(each) for each in samples], **how, n=n, seed=seed)
        return [each for each in samples for _ in range(n)], done

    def _step(self, judge: Judge) -> dict[str, Any]:
        begun, step, settings = time.monotonic(), self._done() + 1, self.settings
        draw = random.Random(f"{settings.seed}-{step}")
        chosen = draw.sample(self.task.samples(), settings.problems)
        how, seed = SAMPLED | {"temperature": settings.temperature}, settings.seed * 100_000 + step
        asked, done = self._rollouts(chosen, settings.samples, seed, how)
        rewards = solved(judge, self.task, asked, done)
        rollouts = grouped(self.model, asked, done, rewards, settings.samples)
        rates = [each["next_rate"] for each in self.records if "next_rate" in each]
        rate = next_rate = rates[-1] if rates else settings.rate
        changed: dict[str, float] = {}
        if rollouts:
            changed = improve(self.trainer, self.first, rollouts, settings, rate, draw)
            self.model.update_weights(self.trainer.weights)
            wanted = math.sqrt(settings.drift / max(changed["moved"], 1e-9))
            next_rate = rate * min(FASTER, max(1 / FASTER, wanted))
        return {
            "step": step,
            "reward": statistics.fmean(rewards),
            "rollouts": len(rollouts),
            "rate": rate,
            **changed,
            "next_rate": next_rate,
            "version": self.model.weights_version,
            "seconds": time.monotonic() - begun,
        }


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in asdict(Settings()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--out", type=Path, default=Path("grpo"), help="the folder of grpo.json")
    given = vars(parser.parse_args(arguments))
    run = Run(out=given.pop("out"), settings=Settings(**given))
    run.go()
    return run.records


if __name__ == "__main__":
    main()
