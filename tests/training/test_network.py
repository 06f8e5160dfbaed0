"""The batched pass equals the package's full pass; objective and optimiser do what they say."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from archer.decoders.scheduled import Scheduled
from archer.engine.walk import steps_of
from archer.methods.build import Method
from archer.network.network import Transformer
from archer.passes.canvas import Prompt
from archer.pocket.tokenizer import build, token_id
from archer.policies.prompt_cache import Eager
from pocket_training import objective
from pocket_training.learner import Diverged, Learner
from pocket_training.network import first_weights, hidden_states
from pocket_training.objective import LEAST_RATE, Masked, loss, mask, prompt_blind
from pocket_training.optimiser import Optimiser
from pocket_training.samples import LONGEST, RESPONSE, Samples
from pocket_training.subject import Batch
from pocket_training.variants import VARIANTS, Variant


@pytest.fixture(scope="module")
def network() -> Transformer:
    return untrained(VARIANTS["pocket"])


def untrained(variant: Variant, seed: int = 0) -> Transformer:
    pieces = variant.subject.pieces()
    network = first_weights(variant.shape(len(pieces)), pieces, seed)
    for index in range(network.shape.layers):
        bias = network.layer(index).qkv_bias
        if bias is not None:
            bias.data.normal_(generator=torch.Generator().manual_seed(seed + index))
    return network


@pytest.fixture(scope="module")
def samples() -> Samples:
    return Samples(build(), 0)


def batch_of(rows: int = 6) -> Batch:
    tokens = [[20 + (row * 7 + column) % 90 for column in range(30)] for row in range(rows)]
    return Batch(tokens, [12 + row for row in range(rows)], [20 + row for row in range(rows)])


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_loss_reads_what_the_package_would_decode_from(variant: Variant) -> None:
    """The batched pass, its shift and its blindness against the loop: cross-entropy of the same holes."""
    network = untrained(variant)
    hole, length = variant.subject.mask, 5
    first, last = network.shape.vocabulary // 2, network.shape.vocabulary
    prompts = [[first + (row + column) % 9 for column in range(9)] for row in range(3)]
    decoder = Scheduled()
    truth = torch.randint(first, last, (3, 9 + length), generator=torch.Generator().manual_seed(0))
    truth[:, :9] = torch.tensor(prompts)
    holes = (torch.arange(9 + length) >= 9).expand(3, -1)
    weights = torch.rand(3, 9 + length, generator=torch.Generator().manual_seed(1))
    masked = Masked(truth.masked_fill(holes, hole), truth, holes, weights, torch.tensor([9] * 3))
    with torch.no_grad():
        states = [decoder.start(Prompt.of(prompt, hole), length) for prompt in prompts]
        steps = [next(steps_of(network, Method(decoder, Eager()), state)) for state in states]
        found = loss(network, masked)
    scores = torch.stack([step.logits.rows[0].values for step in steps]).double()
    entropy = F.cross_entropy(scores.flatten(0, 1), truth[:, 9:].flatten(), reduction="none")
    assert torch.allclose(found.double(), (entropy * weights[:, 9:].flatten()).sum(), rtol=1e-5)


def test_a_blind_prompt_is_the_same_whatever_the_response() -> None:
    network = untrained(VARIANTS["pocket-blind"])
    batch = batch_of(3)
    masked = [mask(batch, 3, torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    with torch.no_grad():
        first, other = (hidden_states(network, m.tokens, prompt_blind(m)) for m in masked)
        seeing, seeing_other = (hidden_states(network, m.tokens) for m in masked)
    for row, prompt in enumerate(batch.prompts):
        assert torch.allclose(first[row, :prompt], other[row, :prompt], atol=1e-5)
        assert not torch.allclose(seeing[row, :prompt], seeing_other[row, :prompt], atol=1e-3)
    assert not torch.allclose(first, other, atol=1e-3)


def test_head_and_embedding_are_one(network: Transformer) -> None:
    assert network.head is network.embedding
    assert 1e6 < sum(weight.numel() for weight in network.parameters()) < 4e6


def test_a_piece_and_its_spaced_twin_start_alike(network: Transformer) -> None:
    bare, spaced, other = (network.embedding[token_id(piece)] for piece in ("7", " 7", " 8"))
    assert F.cosine_similarity(bare, spaced, dim=0) > 0.6 > F.cosine_similarity(bare, other, dim=0)


def test_first_weights_follow_from_the_seed(network: Transformer) -> None:
    again, other = (untrained(VARIANTS["pocket"], seed) for seed in (0, 1))
    assert torch.equal(again.embedding, network.embedding)
    assert not torch.equal(other.embedding, network.embedding)


def test_only_responses_are_masked_and_every_row_is() -> None:
    for seed in range(30):
        masked = mask(batch_of(), 3, torch.Generator().manual_seed(seed))
        assert masked.holes.any(dim=1).all()
        for row, prompt in enumerate(batch_of().prompts):
            assert not masked.holes[row, :prompt].any()
        assert torch.equal(masked.tokens == 3, masked.holes)
        assert torch.equal(masked.tokens[~masked.holes], masked.truth[~masked.holes])


def test_rates_are_spread_and_weights_are_their_inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(8)
    monkeypatch.setattr(objective, "TAILED", 0.0)
    masked = mask(batch, 3, torch.Generator().manual_seed(1))
    lengths = 30 - torch.tensor(batch.prompts)
    rates = 1.0 / (masked.weights[:, 0] * lengths * 8)
    assert ((rates >= LEAST_RATE - 1e-6) & (rates < 1)).all()
    assert sorted((rates * 8).int().tolist()) == list(range(8))


def test_shown_end_marks_are_behind_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "TAILED", 1.0)
    batch = batch_of(8)
    behind = torch.arange(30) >= torch.tensor(batch.ends)[:, None]
    masked = [mask(batch, 3, torch.Generator().manual_seed(seed)) for seed in range(20)]
    holes = torch.stack([each.holes for each in masked])
    assert not holes[..., 29].any()
    assert 0 < (holes & behind).sum() < (holes & ~behind).sum()


def test_the_loss_is_the_weighted_entropy_of_the_holes(network: Transformer) -> None:
    masked = mask(batch_of(), 3, torch.Generator().manual_seed(2))
    with torch.no_grad():
        scores = network.score(hidden_states(network, masked.tokens).flatten(0, 1))
        entropy = F.cross_entropy(scores, masked.truth.flatten(), reduction="none").view(6, 30)
        expected = (entropy * masked.weights * masked.holes).sum()
        assert torch.allclose(loss(network, masked), expected, rtol=1e-5)


def test_pools_repeat_and_have_no_padding(samples: Samples) -> None:
    first, again = samples.pool(3, 0.5), samples.pool(3, 0.5)
    assert first == again
    assert first != samples.pool(4, 0.5)
    for batch in first:
        columns = {len(row) for row in batch.tokens}
        assert len(columns) == 1
        assert columns.pop() <= LONGEST + RESPONSE
    assert max(max(batch.prompts) for batch in first) > 400


def test_of_several_candidates_the_shortest_is_taken(samples: Samples) -> None:
    def answers(batches: list[Batch]) -> int:
        return sum(sum(batch.ends) - sum(batch.prompts) for batch in batches)

    plain, easy = samples.pool(0, 0.2), samples.pool(0, 0.2, candidates=3)
    assert answers(easy) < 0.9 * answers(plain)


def test_learning_lowers_the_loss() -> None:
    learner = Learner(0)
    masked = mask(batch_of(), 3, torch.Generator().manual_seed(0))
    before = learner.network.embedding.detach().clone()
    losses = [learner.step(masked, 2e-3) for _ in range(5)]
    assert losses[-1] < 0.8 * losses[0]
    moved = (learner.network.embedding - before).norm()
    lagging = (learner.average.embedding - before).norm()
    assert 0 < lagging < moved


def test_a_loss_that_is_not_finite_stops_the_run() -> None:
    learner = Learner(0)
    masked = mask(batch_of(), 3, torch.Generator().manual_seed(0))
    spoiled = replace(masked, weights=masked.weights * torch.nan)
    with pytest.raises(Diverged, match="smaller learning rate"):
        learner.step(spoiled, 1e-3)


def test_matrix_updates_have_even_singular_values() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(24, 8))
    optimiser = Optimiser({"w": (weight, 2)}, [nn.Parameter(torch.zeros(1))])
    weight.grad = torch.randn(24, 8) * torch.logspace(0, -1.5, 8)
    optimiser.step(1.0)
    for part in weight.detach().chunk(2):
        values: Tensor = torch.linalg.svdvals(part)
        assert values.max() < 3 * values.min()
