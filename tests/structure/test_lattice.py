"""The recursions against what they stand for: every text written out, one by one."""

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archer.errors import BadRequest
from archer.structure import lattice
from archer.structure.byte_automaton import of_regex
from archer.structure.lattice import LEAST, OPEN, Lattice, by_class
from archer.structure.token_automaton import Vocabulary, over_tokens

SPELLED = {0: b"a", 1: b"b", 2: b"ab", 3: b"c", 5: b"ba", 6: b"a"}
END = 4
SIZE = 8
VOCABULARY = Vocabulary(SPELLED, [END], SIZE)

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "c", "ab", "[ab]", "(?:a|cb)", ""]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        inner.map(lambda part: f"(?:{part})*"),
        inner.map(lambda part: f"(?:{part}){{1,3}}"),
    ),
    max_leaves=6,
)


def text_of(tokens: Sequence[int], closed: Sequence[bool]) -> str | None:
    """What a response says; None where something stands behind its end."""
    text = b""
    over = False
    for token, inside in zip(tokens, closed, strict=True):
        if token == END:
            over = over or not inside
        elif over or token not in SPELLED:
            return None
        else:
            text += SPELLED[token]
    return text.decode()


def accepted(
    pattern: str, columns: int, closed: Sequence[bool], room: int = 0
) -> set[tuple[int, ...]]:
    """All responses whose text matches, or can come to match with more columns behind."""
    tokens = [*SPELLED, END]
    behind = [False] * room
    found = set()
    for response in itertools.product(tokens, repeat=columns + room):
        text = text_of(response, [*closed, *behind])
        if text is not None and re.fullmatch(pattern, text):
            found.add(response[:columns])
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[bool], list[int], np.ndarray]:
    pattern = draw(PATTERNS)
    columns = draw(st.integers(1, 4))
    closed = draw(
        st.one_of(
            st.just([False] * columns), st.lists(st.booleans(), min_size=columns, max_size=columns)
        )
    )
    closed = sorted(closed, reverse=True)  # what is open is the end
    tokens = draw(
        st.lists(st.sampled_from([OPEN, OPEN, *SPELLED, END]), min_size=columns, max_size=columns)
    )
    scale = draw(st.sampled_from([0.0, 1.0, 8.0, 60.0]))
    seed = draw(st.integers(0, 1 << 20))
    logits = scale * np.random.default_rng(seed).standard_normal((columns, SIZE))
    return pattern, closed, tokens, logits.astype(np.float32)


def laid(
    pattern: str, closed: list[bool], tokens: list[int], logits: np.ndarray, room: int = 0
) -> Lattice:
    automaton = over_tokens(of_regex(pattern), VOCABULARY)
    columns = np.arange(len(tokens))
    return Lattice(automaton, np.array(tokens), columns, np.array(closed), logits, room)


def weight(response: Sequence[int], logits: np.ndarray, left_out: Sequence[int] = ()) -> float:
    return float(sum(logits[at, token] for at, token in enumerate(response) if at not in left_out))


def agreeing(
    found: set[tuple[int, ...]], tokens: list[int], free: int | None = None
) -> list[tuple[int, ...]]:
    return sorted(
        each
        for each in found
        if all(
            token in (OPEN, own) or at == free
            for at, (token, own) in enumerate(zip(tokens, each, strict=True))
        )
    )


@settings(max_examples=60, deadline=None)
@given(cases())
def test_everything_is_what_writing_out_all_texts_gives(
    case: tuple[str, list[bool], list[int], np.ndarray],
) -> None:
    pattern, closed, tokens, logits = case
    lattice = laid(pattern, closed, tokens, logits)
    found = accepted(pattern, len(tokens), closed)
    fitting = agreeing(found, tokens)
    assert lattice.feasible == bool(fitting)
    if not fitting:
        return
    placed = [at for at, token in enumerate(tokens) if token != OPEN]
    weights = np.array([weight(each, logits, placed) for each in fitting], dtype=np.float64)
    best = lattice.likeliest()
    assert tuple(best.tolist()) in found
    assert weight(best.tolist(), logits, placed) == pytest.approx(weights.max(), abs=1e-4)
    assert lattice.weight == pytest.approx(np.logaddexp.reduce(weights), abs=1e-4)
    drawn = lattice.drawn(0.7, np.random.default_rng(0).random((len(tokens), 2)))
    assert tuple(drawn.tolist()) in found
    sure = lattice.confidence(best, np.arange(len(tokens)))
    for at, token in enumerate(best.tolist()):
        free = agreeing(found, tokens, at)
        fixed = [other for other in placed if other != at]
        each = np.array([weight(one, logits, fixed) for one in free], dtype=np.float64)
        share = np.exp(each - each.max())
        own = np.array([one[at] == token for one in free])
        assert sure[at] == pytest.approx(float(share[own].sum() / share.sum()), abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(1, 2))
def test_a_canvas_that_may_grow_admits_what_can_be_completed(
    case: tuple[str, list[bool], list[int], np.ndarray], room: int
) -> None:
    pattern, _, tokens, logits = case
    tokens, closed = tokens[:3], [False] * len(tokens[:3])
    lattice = laid(pattern, closed, tokens, logits[:3], room)
    fitting = agreeing(accepted(pattern, len(tokens), closed, room), tokens)
    assert lattice.feasible == bool(fitting)
    if fitting:
        assert tuple(lattice.likeliest().tolist()) in fitting


@settings(max_examples=40, deadline=None)
@given(cases(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_columns_that_nobody_reads_say_what_is_possible(
    case: tuple[str, list[bool], list[int], np.ndarray], unread: list[bool]
) -> None:
    pattern, closed, tokens, logits = case
    known = np.array([-1 if left_out else at for at, left_out in enumerate(unread[: len(tokens)])])
    automaton = over_tokens(of_regex(pattern), VOCABULARY)
    lattice = Lattice(automaton, np.array(tokens), known, np.array(closed), logits)
    fitting = agreeing(accepted(pattern, len(tokens), closed), tokens)
    assert lattice.feasible == bool(fitting)
    if fitting:
        best = lattice.likeliest()
        assert tuple(best.tolist()) in fitting
        sure = lattice.confidence(best, np.flatnonzero(known >= 0))
        assert ((sure >= 0) & (sure <= 1)).all()


@settings(max_examples=40, deadline=None)
@given(
    PATTERNS, st.sampled_from([1.0, 40.0, 2000.0]), st.sampled_from([1.0, 0.5]), st.integers(0, 99)
)
def test_classes_are_what_their_tokens_add_up_to(
    pattern: str, scale: float, temperature: float, seed: int
) -> None:
    """Also where one token is so far above others that nothing of them is left beside it."""
    automaton = over_tokens(of_regex(pattern), VOCABULARY)
    logits = (scale * np.random.default_rng(seed).standard_normal((4, SIZE))).astype(np.float32)
    logits[3] = -np.inf
    found = by_class(automaton, logits, temperature)
    for kind in range(automaton.end_class + 1):
        own = logits[:, automaton.classes == kind].astype(np.float64).clip(min=LEAST) / temperature
        assert np.allclose(found.best[:, kind], own.max(axis=1), rtol=1e-6, atol=1e-4)
        assert np.allclose(
            found.mass[:, kind], np.logaddexp.reduce(own, axis=1), rtol=1e-6, atol=1e-4
        )


@given(PATTERNS)
def test_links_are_the_edges_between_two_states_taken_together(pattern: str) -> None:
    automaton = over_tokens(of_regex(pattern), VOCABULARY)
    edges = zip(automaton.source, automaton.kind, automaton.target, strict=True)
    wanted = sorted((int(a), int(kind), int(b)) for a, kind, b in edges)
    for links in (automaton.links, automaton.links_to):
        ends = list(zip(links.source.tolist(), links.target.tolist(), strict=True))
        assert len(set(ends)) == len(ends)
        sets = [
            links.classes[links.first[at] : links.first[at + 1]].tolist()
            for at in range(len(links.first) - 1)
        ]
        pairs = zip(ends, links.kinds.tolist(), strict=True)
        assert sorted((a, kind, b) for (a, b), own in pairs for kind in sets[own]) == wanted
        assert sets[links.end] == [automaton.end_class]
        ordered = links.source if links is automaton.links else links.target
        assert (np.diff(ordered) >= 0).all()
        assert links.state.tolist() == np.unique(ordered).tolist()
        assert ordered[links.start].tolist() == links.state.tolist()


def test_the_best_of_a_large_class_is_that_of_all_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lattice, "MANY", 0)
    random = np.random.default_rng(0)
    for _ in range(50):
        logits = random.standard_normal((3, SIZE)).astype(np.float32)
        quick = laid("[ab]*", [False] * 3, [OPEN] * 3, logits).likeliest().tolist()
        weights = {each: weight(each, logits) for each in accepted("[ab]*", 3, [False] * 3)}
        assert weights[tuple(quick)] == max(weights.values())


def test_strings_are_drawn_as_often_as_they_are_likely() -> None:
    logits = np.random.default_rng(1).standard_normal((3, SIZE)).astype(np.float32)
    lattice = laid("(?:a|ba)*c?", [False] * 3, [OPEN] * 3, logits)
    fitting = agreeing(accepted("(?:a|ba)*c?", 3, [False] * 3), [OPEN] * 3)
    temperature = 0.5
    weights = np.exp([weight(each, logits) / temperature for each in fitting])
    draws, noise = 4000, np.random.default_rng(2)
    counts = dict.fromkeys(fitting, 0)
    for _ in range(draws):
        counts[tuple(lattice.drawn(temperature, noise.random((3, 2))).tolist())] += 1
    shares = np.array(list(counts.values())) / draws
    assert np.abs(shares - weights / weights.sum()).max() < 0.03


def test_a_token_that_is_ruled_out_is_used_where_nothing_else_completes_the_text() -> None:
    logits = np.zeros((2, SIZE), dtype=np.float32)
    logits[:, 3] = -np.inf
    lattice = laid("ac", [False] * 2, [OPEN] * 2, logits)
    assert SPELLED[int(lattice.likeliest()[0])] == b"a"
    assert lattice.likeliest()[1] == 3


@settings(max_examples=100, deadline=None)
@given(PATTERNS, st.lists(st.sampled_from("abc"), max_size=6).map("".join))
def test_an_automaton_accepts_what_its_expression_matches(pattern: str, text: str) -> None:
    automaton = of_regex(pattern)
    assert automaton.accepts(text.encode()) == bool(re.fullmatch(pattern, text))
    forced = automaton.forced()
    if automaton.accepts(text.encode()):
        assert text.encode().startswith(forced)
    tokens = over_tokens(automaton, VOCABULARY)
    cut = [token for letter in text for token in (ord(letter) - ord("a"),)]
    as_tokens = [{0: 0, 1: 1, 2: 3}[each] for each in cut]
    assert tokens.accepts(as_tokens) == bool(re.fullmatch(pattern, text))
    assert tokens.accepts([*as_tokens, END, END]) == bool(re.fullmatch(pattern, text))
    assert tokens.needed[tokens.start] >= 0


def test_an_automaton_is_the_smallest_and_its_classes_are_few() -> None:
    automaton = of_regex("(?:aa|ba)|(?:ab|bb)|ac|bc")
    assert automaton.states == 3
    tokens = over_tokens(automaton, VOCABULARY)
    assert tokens.classes[0] == tokens.classes[1] == tokens.classes[6]
    assert len(tokens.first) - 1 < len(SPELLED)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(a", "cannot be used"),
        ("a(?=b)", "cannot be used"),
        (r"(a)\1", "cannot be used"),
        ("[a&&b]", "No text is accepted"),
        ("a" * ((1 << 20) + 1), "too long"),
    ],
)
def test_what_is_no_expression_is_refused(pattern: str, sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        of_regex(pattern)


def test_what_no_tokens_spell_is_refused() -> None:
    with pytest.raises(BadRequest, match="can be spelled with the tokens"):
        over_tokens(of_regex("xyz"), VOCABULARY)


def test_text_that_follows_from_what_stands_is_certain_however_it_is_cut() -> None:
    """Up to the first column that is neither placed nor certain."""
    logits = np.zeros((5, SIZE), dtype=np.float32)
    lattice = laid("ab(?:c|aba)", [False] * 5, [OPEN] * 5, logits)
    assert lattice.certain(np.array([2, 3, END, END, END])).tolist() == [True, *[False] * 4]
    assert lattice.certain(np.array([0, 1, 0, 5, END])).tolist() == [True, True, *[False] * 3]
    placed = laid("ab(?:c|aba)", [False] * 5, [OPEN, OPEN, 0, OPEN, OPEN], logits)
    assert placed.certain(np.array([0, 1, 0, 5, END])).tolist() == [True, True, False, True, False]


@settings(max_examples=60, deadline=None)
@given(PATTERNS)
def test_what_is_certain_follows_in_every_accepted_text(pattern: str) -> None:
    automaton = of_regex(pattern)
    texts = ["".join(each) for n in range(6) for each in itertools.product("abc", repeat=n)]
    found = [text for text in texts if re.fullmatch(pattern, text)]
    assert all(text.startswith(automaton.forced().decode()) for text in found)
    assert automaton.certain[automaton.start] == len(automaton.forced())
