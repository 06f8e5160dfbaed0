"""Gaps in texts as users meet them: what is given comes back as it was, and bad forms get a sentence."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archer.engine.footprint import empty_store
from archer.engine.gap_length import PATIENCE, PUBLISHED, Curve, GapSearch, best_length
from archer.engine.handle import Listener
from archer.errors import BadRequest, Incompatible, TooLong
from archer.model import Model, load
from archer.request.fill import MOST_GAPS, Fill
from archer.request.request import Form
from archer.results.trace import Start, Update, read, states
from support import naive
from support.folders import make_llada, make_llada2
from support.pairs import by_the_loop

CODE = "def f(x):\n    {}\n    return y"


@pytest.fixture(scope="module")
def pocket() -> Model:
    return load("pocket", device="cpu", dtype="float32")


TEXTS = st.text(st.sampled_from("ab (x)\n:=+é"), max_size=12)


@given(
    parts=st.lists(TEXTS, min_size=2, max_size=4), healing=st.booleans(), length=st.integers(2, 6)
)
@example(
    parts=[":", ":"], healing=True, length=5
)  # the whole text behind is healed; an end mark before it
@settings(max_examples=25)
def test_the_text_around_the_gaps_comes_back_as_it_was(
    pocket: Model, parts: list[str], healing: bool, length: int
) -> None:
    if not parts[0].strip() or not all(parts[1:-1]):
        return
    (done,) = pocket.generate(Fill(parts), "threshold:0.3", length=length, healing=healing)
    assert done.parts == tuple(parts)
    assert len(done.gaps) == len(parts) - 1
    whole = parts[0]
    for text, part in zip(done.gaps, parts[1:], strict=True):
        whole += text + part
    assert done.whole == whole
    assert done.text == whole[len(parts[0]) : len(whole) - len(parts[-1])]
    assert len(done.tokens) == length * len(done.gaps)
    form = pocket.request(Fill(parts), length=length, healing=healing).prompts[0]
    left = iter(done.tokens)
    assert done.response == tuple(next(left) if t is None else t for t in form.given or ())
    assert done.given == (form.given if form.behind else ())


@pytest.mark.parametrize("kind", ["llada", "dream"])
def test_all_doors_fill_alike(kind: str, request: pytest.FixtureRequest) -> None:
    model: Model = request.getfixturevalue(kind)
    method: dict[str, Any] = {"method": "saber+archer:4", "length": 5}
    (one,) = model.fill(CODE, **method)
    (two,) = model.infill("def f(x):\n    ", "\n    return y", **method)
    stream = model.stream(Fill.marked(CODE), **method)
    *_, last = stream
    (three,) = stream.finish()
    with model.engine(budget=64) as engine:
        four = engine.submit(Fill.marked(CODE), **method).result()
    trace = model.record(Fill.marked(CODE), **method)
    (five,) = by_the_loop(model, Fill.marked(CODE), **method)
    found = {done.tokens for done in (one, two, three, four, five, *trace.completions)}
    assert found == {one.tokens}
    assert one.whole == two.whole == four.whole == CODE.replace("{}", one.gaps[0])
    assert last.record.response[0].tolist() == list(one.response)
    assert one.prompt_tokens == len(one.given) - 5 + len(stream.request.prompts[0].prefix)


def test_a_batch_of_different_canvases_is_each_alone(llada: Model) -> None:
    fills = [
        Fill.marked(CODE, length=4),
        Fill.marked("a {} b {} c", length=[2, 3]),
        Fill.of_ids([5, 6, None, 7, None, None, 8]),
        Fill(("x", ""), length=6),
    ]
    prompts: list[Any] = [*fills, "hello", fills[0]]
    options: dict[str, Any] = {"length": 7, "seed": 3, "temperature": 0.4, "chat": False}
    together = llada.generate(prompts, "saber", **options)
    for prompt, done in zip(prompts[:5], together, strict=False):
        (alone,) = llada.generate(prompt, "saber", **options)
        assert alone.tokens == done.tokens
        assert alone.whole == done.whole
    assert [len(done.tokens) for done in together] == [4, 5, 3, 6, 7, 4]
    several = llada.generate(fills[1], "saber", n=3, **options)
    assert several[0].tokens == together[1].tokens
    assert len({done.tokens for done in several}) > 1


def test_an_empty_suffix_and_a_gap_at_the_end_are_generation(llada: Model, dream: Model) -> None:
    for model in (llada, dream):
        ids = model.encode("one two", chat=False)
        options: dict[str, Any] = {"length": 6, "temperature": 0.7, "seed": 5}
        (plain,) = model.generate("one two", chat=False, **options)
        (empty,) = model.infill("one two", "", **options)
        (gap,) = model.fill([*ids, *[None] * 6], temperature=0.7, seed=5)
        (marked,) = model.fill("one two{}", healing=False, **options)
        assert plain.tokens == empty.tokens == gap.tokens == marked.tokens
        assert plain == empty.__class__(**{**empty.__dict__, "seconds": plain.seconds})


def test_an_answer_begins_as_it_is_given(llada: Model) -> None:
    """And a given part anywhere else is given, too."""
    (chat,) = llada.request("hi", length=4).prompts
    (begun,) = llada.request("hi", prefill="So: ", length=4, healing=False).prompts
    assert begun.prefix[: len(chat.prefix)] == chat.prefix
    assert len(begun.prefix) > len(chat.prefix)
    assert (begun.behind, begun.parts) == ((), ("So: ", ""))
    (done,) = llada.generate("hi", prefill="So: {}, thus {}.", length=[2, 3])
    assert done.whole == f"So: {done.gaps[0]}, thus {done.gaps[1]}."
    (other,) = llada.generate("hi", prefill="So: <>!", gap="<>", suffix=None, length=2)
    assert other.whole == f"So: {other.gaps[0]}!"
    (behind,) = llada.generate("hi", suffix=" Bye.", length=3)
    assert behind.whole == f"{behind.text} Bye."
    ids = llada.generate([1, 2], prefill="So", suffix=[5, 6], length=3, healing=False)
    assert ids[0].given[-2:] == (5, 6)
    each = llada.generate(["a", "b"], prefill=["c", None], suffix=["", "d"], length=3)
    assert [done.parts for done in each] == [("c", ""), ("", "d")]


@pytest.mark.parametrize("samples", [1, 2])
def test_what_is_heard_while_gaps_are_filled_adds_up(llada: Model, samples: int) -> None:
    class Heard(Listener):
        hears_text = True

        def __init__(self) -> None:
            self.texts = [""] * samples

        def settled(self, row: int, text: str) -> None:
            self.texts[row] += text

    for method in ("confidence", "saber", "threshold:0.1"):
        heard = Heard()
        handle = llada.engine().submit(
            Fill.marked("ab{}cd{}ef", length=[3, 4]), method, n=samples, listener=heard
        )
        done = handle.results()
        assert [each.text for each in done] == heard.texts
        assert done[0].text == f"{done[0].gaps[0]}cd{done[0].gaps[1]}"


def test_a_stop_string_ends_the_gap_it_stands_in(pocket: Model) -> None:
    fill = Fill.marked("def f(x):\n    {}\n    y = 2\n    {}\n    return result", length=[9, 9])
    (whole,) = pocket.generate(fill, "confidence")
    stop = whole.gaps[0][4:6]
    assert len(stop) == 2
    (cut,) = pocket.generate(fill, "confidence", stop=stop)
    assert cut.gaps[0] == whole.gaps[0][: whole.gaps[0].index(stop)]
    assert cut.gaps[1] == whole.gaps[1].partition(stop)[0]
    assert cut.finish_reason == "stop"
    assert len(cut.tokens) == cut.given.count(None) < len(whole.tokens)
    assert len(cut.tokens) == len(cut.confidences) == len(cut.written_at)


@pytest.mark.parametrize("kind", ["llada", "dream"])
def test_a_length_is_searched_by_passes_on_masks(kind: str, request: pytest.FixtureRequest) -> None:
    """The first score is that of a full pass; what stands before the gap is not computed again."""
    model: Model = request.getfixturevalue(kind)
    fill = Fill.marked("one two {} three", length="search")
    asked = model.request(fill, "saber", max_length=12, healing=False)
    (form,) = asked.prompts
    assert (form.lengths, form.searched) == ((12,), (0,))
    search = GapSearch(model.network, model.folder.mask, empty_store(model.network, 1, 64))
    for length in (8, 9):
        tried = form.resized(0, length)
        columns = [*form.prefix, *tried.response(0, model.folder.mask)]
        raw, _ = naive.forward(model.network, torch.tensor(columns))
        first = len(form.prefix)
        read = naive.aligned(raw, first, model.network.shape.shift)[:length]
        _, sure = naive.confidence(read, model.folder.mask)
        found = search.sure(form, 0, length)
        if length == 8:
            assert found == pytest.approx(float(sure.mean()), rel=1e-4)
            assert search.columns == len(columns)
    assert search.columns == 2 * len(columns) - 1 - first + model.network.shape.shift
    (one,) = model.generate(fill, "saber", max_length=12, healing=False)
    stream = model.stream(fill, "saber", max_length=12, healing=False)
    (two,) = stream.finish()
    with model.engine(budget=64) as engine:
        three = engine.submit(fill, "saber", max_length=12, healing=False).result()
    assert one.tokens == two.tokens == three.tokens
    assert stream.request.prompts[0].lengths == (len(one.tokens),)
    assert one.probed_columns == two.probed_columns == three.probed_columns > 0
    assert one.request is not None
    assert one.trace().html()


def test_a_curve_of_the_user_s_own(pocket: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says that the model is usually unsure in long gaps makes gaps longer than a flat one."""
    text = "def f(x):\n    {}\n    return result"
    (usual,) = pocket.fill(text, max_length=40)
    (same,) = pocket.fill(text, max_length=40, curve=list(PUBLISHED))
    assert usual.tokens == same.tokens
    monkeypatch.setattr(GapSearch, "sure", lambda self, form, gap, length: 0.9 - 0.01 * length)
    (flat,) = pocket.fill(text, max_length=20, healing=False, curve=[0, 0, 0, 0, 1])
    (steep,) = pocket.fill(text, max_length=20, healing=False, curve=[0, 0, 1, 0.5, 1e-6])
    assert len(flat.tokens) <= 2, "the shortest that the method takes"
    assert len(steep.tokens) == 20
    assert Curve(1, 2, 3, 0, 1).usual(10) == pytest.approx(4)
    bad: list[Any] = ["12345", [1, 2, 3], [1, 2, 3, 4, -1], [0, 0, 0, 0, float("nan")], 5]
    for wrong in bad:
        with pytest.raises(BadRequest, match="A curve is five numbers"):
            pocket.fill(text, curve=wrong)
    with pytest.raises(BadRequest, match="must stay above 0"):
        pocket.fill(text, curve=[1, 1, 1, 1, 0])


@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_search_ends_at_the_best_of_its_neighbourhood(scores: list[float]) -> None:
    search = best_length(list(range(1, len(scores) + 1)))
    tried = [next(search)]
    found = None
    while found is None:
        try:
            tried.append(search.send(scores[tried[-1] - 1]))
        except StopIteration as end:
            found = end.value
    assert scores[found - 1] == max(scores[length - 1] for length in tried)
    assert tried[0] == min(8, len(scores))
    assert len(tried) == len(set(tried))
    if len(scores) <= PATIENCE:
        assert sorted(tried) == list(range(1, len(scores) + 1))


@pytest.mark.parametrize(
    ("named", "same", "more"),
    [
        ("archer-cut", "archer-doubt", {"cap": 0.99}),
        ("illada", "illada", {"canvas": "fixed"}),
    ],
)
def test_a_method_whose_canvas_follows_the_answer_fills_gaps_of_a_length(
    pocket: Model, named: str, same: str, more: dict[str, Any]
) -> None:
    """Text behind a gap cannot move, so the canvas that the method's name implies means nothing there."""
    text = "def f(x):\n    {}\n    return result"
    (one,), (two,) = pocket.fill(text, named, length=9), pocket.fill(text, same, length=9, **more)
    assert (one.tokens, one.updates, one.full_passes) == (two.tokens, two.updates, two.full_passes)
    assert one.trace().html()
    with pytest.raises(Incompatible, match="text stands behind this gap"):
        pocket.fill(text, "threshold", length=9, canvas="auto")


def test_a_gap_left_over_long_loses_its_end_marks(pocket: Model) -> None:
    text = "def f(x):\n    {}\n    return result"
    (long,) = pocket.fill(text, length="delete", max_length=40, healing=False)
    (same,) = pocket.fill(text, length=40, healing=False)
    (usual_,) = pocket.fill(text, max_length=40, healing=False)
    assert long.tokens == same.tokens == usual_.tokens
    assert pocket.text is not None
    assert long.gaps == (pocket.text.decode(long.tokens),)
    ends = [at for at, token in enumerate(long.tokens) if token in pocket.end_ids]
    assert ends
    assert not any(mark in long.gaps[0] for mark in pocket.text.added)


@pytest.mark.parametrize("stop", [(), ("return",)])
def test_a_begun_answer_of_any_length_is_an_answer(pocket: Model, stop: tuple[str, ...]) -> None:
    """Nothing stands behind its gap, so it ends at the first end mark and its canvas may follow it."""
    question = "Write a function to double x.\nassert double(2) == 4"
    begun = "def double(x):"
    ids = pocket.encode([{"role": "user", "content": f"{question}\n{begun}"}])
    for options in ({"length": 48}, {"length": "auto"}, {"length": "auto", "max_length": 90}):
        (plain,) = pocket.generate(ids, "saber", stop=stop, **options)
        (done,) = pocket.generate(
            question, "saber", prefill=begun, healing=False, stop=stop, **options
        )
        assert done.tokens == plain.tokens
        assert (done.text, done.finish_reason) == (plain.text, plain.finish_reason)
        assert done.whole == f"{begun}{plain.text}"
        assert done.response == done.tokens
        assert done.trace().html()


def test_a_canvas_that_follows_its_answer_ends_with_it(llada: Model) -> None:
    with pytest.raises(Incompatible, match="text stands behind this gap"):
        llada.fill(CODE, canvas="auto", length=8)


def test_a_method_that_does_not_go_with_a_length_is_not_tried_with_it(pocket: Model) -> None:
    fill = Fill.marked("def f(x):\n    {}\n    return result", length="search")
    (done,) = pocket.generate(fill, "threshold", block=4, max_length=12)
    assert len(done.tokens) in (4, 8, 12)


def test_a_trace_begins_with_what_is_given(llada: Model, tmp_path: Path) -> None:
    fills = [Fill.of_ids([5, None, 6, None, None, 7]), Fill.of_ids([5, None, None, None])]
    trace = llada.record(fills, "saber")
    trace.save(tmp_path / "trace.jsonl")
    first, *events = read(tmp_path / "trace.jsonl")
    assert isinstance(first, Start)
    assert first.prompts == [[5], [5]]
    mask = llada.folder.mask
    assert first.response(0) == [mask, 6, mask, mask, 7]
    for row, done in enumerate(trace.completions):
        own = [event for event in events if isinstance(event, Update) and event.row == row]
        assert list(states(first, own))[-1] == list(done.response)
    assert '"given"' in trace.html()


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("no gap", {}, "does not hold '{}', which stands for one"),
        ("a {} b", {"gap": ""}, "A gap is marked by some text"),
        (7, {}, "A text with gaps must be text, not int"),
        ([], {}, "There is no text to fill"),
        ("x{}" * 10_000, {}, f"10000 gaps are too many for one text: at most {MOST_GAPS}"),
        ("a{}{}b", {}, "Two gaps have no text between them"),
        ("{}", {}, "Nothing is given around the gap"),
        ("a {} b {} c", {"length": [1]}, "There are 1 lengths for 2 gaps"),
        ("a {} b", {"length": 0}, "The length of a gap is a whole number from 1 to"),
        ("a {} b", {"length": [True]}, "The length of a gap is a whole number from 1 to"),
        ("a {} b", {"length": "many"}, "The length of a gap is a whole number from 1 to"),
        ("a <|mdm_mask|> {} b", {}, "spells the special token"),
        ("a {} b<|mdm_mask|>", {}, "spells the special token"),
        ([5, None, 9999], {}, "holds the id 9999, but the model knows"),
        ([5, None, 258], {}, "holds the mask id 258"),
        ([5, None, 1.5], {}, "which is not a whole number"),
        ("a {} b", {"length": 511}, "need .* positions, but the model has 512"),
        (
            "a {} b",
            {"method": "threshold", "length": 5, "block": 2},
            "does not divide the length 5",
        ),
        ("a {} b", {"method": "saber", "length": 3, "least": 5}, "n = 5 positions per update"),
    ],
)
def test_what_cannot_be_filled_is_refused(
    llada: Model, text: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((BadRequest, TooLong), match=sentence):
        llada.fill(text, **({"length": 4} | options))


def test_what_cannot_be_given_is_refused(llada: Model) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"suffix": ["a"]}, "There are 1 texts as suffix for 2 prompts"),
        ({"suffix": 5}, "suffix must be text or a list of texts, not int"),
        ({"prefill": "a {} b", "suffix": "c"}, "says itself how the answer ends"),
    ]
    for options, sentence in bad:
        with pytest.raises(BadRequest, match=sentence):
            llada.generate(["x", "y"], length=3, **options)
    with pytest.raises(BadRequest, match="says itself what is given"):
        llada.generate(Fill.marked(CODE), suffix="x", length=3)
    with pytest.raises(BadRequest, match="at least two texts"):
        llada.generate(Fill(("a",)), length=3)
    with pytest.raises(BadRequest, match="An answer to a text begins with a text"):
        llada.generate(Fill(([1, 2], "b"), prompt="hi"), length=3)


def test_without_a_tokenizer_gaps_stand_between_ids(tmp_path: Path) -> None:
    bare = load(make_llada(tmp_path / "bare"), device="cpu")
    (done,) = bare.fill([5, None, None, 6])
    assert (done.text, done.whole, done.gaps, len(done.tokens)) == (None, None, (), 2)
    assert done.response[-1] == 6
    with pytest.raises(BadRequest, match="takes what is given as lists of ids only"):
        bare.fill("a {} b", length=2)
    with pytest.raises(BadRequest, match="an answer begins with ids only"):
        bare.generate([1], prefill="a", length=2)


def test_a_gap_may_begin_the_text_unless_logits_are_shifted(llada: Model, dream: Model) -> None:
    (done,) = llada.fill("{} and the end", length=3)
    assert done.whole == f"{done.gaps[0]} and the end"
    assert done.prompt_tokens == len(done.given) - 3
    with pytest.raises(Incompatible, match="read at the column before it, and there is none"):
        dream.fill("{} and the end", length=3)


def test_a_column_that_cannot_see_the_text_behind_it_is_not_filled(tmp_path: Path) -> None:
    causal = load(make_llada2(tmp_path), device="cpu")
    with pytest.raises(Incompatible, match="would be filled without the text behind it"):
        causal.fill([5, 6, None, None, 7], "llada2")
    (done,) = causal.fill([5, 6, None, None], "llada2")
    assert done.tokens == causal.generate([5, 6], "llada2", length=2)[0].tokens


def test_a_form_says_what_is_given() -> None:
    form = Form.between([[1, 2], [3], []], [2, 1])
    assert form.given == (None, None, 3, None)
    assert (form.length, form.prompt_tokens, form.behind) == (3, 3, (3,))
    assert form.spans == (slice(0, 2), slice(2, 3))
    assert form.response(99, 7) == [7, 7, 3, 7]
    assert Form((1,)).response(2, 7) == [7, 7]
    assert Form((1,)).length is None
