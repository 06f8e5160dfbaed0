"""The tokenizer of a model folder, from `tokenizer.json` or from `vocab.json` and `merges.txt`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from archer.errors import BadModel, cause_of
from archer.loading.architecture import Architecture
from archer.loading.architectures import ARCHITECTURES
from archer.loading.model_files import (
    MEGABYTE,
    Json,
    find,
    kind_of,
    parse_json,
    read_json,
    read_text,
)
from archer.loading.text.child_process import ChildProcess, NoAnswer
from archer.loading.text.token_bytes import TokenBytes, read_token_bytes
from archer.loading.text.tokenizer_bounds import (
    LONGEST_TOKEN,
    MOST_ADDED,
    check_added_length,
    check_tokenizer,
)

WHOLE = "tokenizer.json"
VOCABULARY = "vocab.json"
MERGES = "merges.txt"
ADDED = "added_tokens.json"
CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
FRAGMENTS = (VOCABULARY, MERGES, ADDED, CONFIG, SPECIAL, "tokenizer.model")
LONGEST = 64 * MEGABYTE
LARGEST_ID = 1 << 31
TRIAL = "def f(x):\n    return x + 1  # \xe9 \u4e2d \U0001f642 \x00" + "".join(
    map(chr, range(32, 127))
)
"""What every tokenizer must be able to encode that needs a process of its own."""
BUNDLED_PATTERN = r" ?[A-Za-z_]+| ?[0-9]+| ?'[A-Za-z]'| ?'-'| ?''| ?'|\n *| ?[^\sA-Za-z0-9_']+|\s"
KNOWN_PATTERNS = frozenset(
    {row.split_pattern for row in ARCHITECTURES.values() if row.split_pattern} | {BUNDLED_PATTERN}
)
"""How the models of the table and the bundled one split text: in time that grows with the text."""
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
NAMED = ("bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def read_tokenizer(
    folder: Path, architecture: Architecture, vocabulary: int
) -> tuple[Tokenizer, ChildProcess | None] | None:
    """The tokenizer, None where there is none; refused when incomplete, malformed or too large.

    With it the process that must encode, where this one may only decode.
    """
    whole, child = find(folder, WHOLE), None
    if whole is not None:
        tokenizer, child = _parse(whole)
    elif any(find(folder, name) for name in (VOCABULARY, MERGES)):
        tokenizer = _build(folder, architecture)
    else:
        fragments = [name for name in FRAGMENTS if find(folder, name)]
        if fragments:
            raise _incomplete(folder, fragments[0], WHOLE)
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest >= vocabulary:
        raise BadModel(
            f"{folder}: the tokenizer has ids up to {largest}, but the network's vocabulary ends "
            f"at {vocabulary - 1}; tokenizer and weights belong to different models."
        )
    return tokenizer, child


def read_pieces(path: Path) -> TokenBytes | None:
    """The bytes of the tokens of one file; None where it does more than join them."""
    tokenizer, child = _parse(path)
    if child is not None:
        child.close()
    return read_token_bytes(tokenizer, forbidden=())


def read_tokenizer_config(folder: Path) -> Json:
    """tokenizer_config.json, or an empty object."""
    path = find(folder, CONFIG)
    return {} if path is None else read_json(path, LONGEST)


def token_names(folder: Path, config: Mapping[str, object]) -> dict[str, str]:
    """`bos_token`, `eos_token` and the like, as a chat template may use them."""
    path = find(folder, SPECIAL)
    fallback = {} if path is None else read_json(path, LONGEST)
    names = {}
    for name in NAMED:
        match config.get(name) or fallback.get(name):
            case str(text) | {"content": str(text)}:
                names[name] = text
            case None:
                pass
            case other:
                raise BadModel(f"{folder}: {name} must be text, not {kind_of(other)}.")
    return names


def mask_id(folder: Path, spellings: Sequence[str]) -> int | None:
    """The id of the mask: of what the tokenizer declares as such, else of a token spelled like one.

    Only looked up in the folder's files; None where it is not there.
    """
    declared = token_names(folder, read_tokenizer_config(folder)).get("mask_token")
    names = [text for text in (declared, *spellings) if text is not None]
    for ids in (_described_ids, _listed_ids, _whole_ids):
        specials = ids(folder) if names else {}
        for text in names:
            if text in specials:
                return specials[text]
    return None


def _described_ids(folder: Path) -> dict[str, int]:
    """Added tokens by the tokenizer's config."""
    described = read_tokenizer_config(folder).get("added_tokens_decoder")
    entries = described.items() if isinstance(described, dict) else ()
    return {
        text: int(id)
        for id, entry in entries
        if id.isdecimal() and len(id) < 10 and isinstance(entry, dict)
        if isinstance(text := entry.get("content"), str)
    }


def _listed_ids(folder: Path) -> dict[str, int]:
    path = find(folder, ADDED)
    return {} if path is None else _ids(path)


def _whole_ids(folder: Path) -> dict[str, int]:
    path = find(folder, WHOLE)
    added = None if path is None else read_json(path, LONGEST).get("added_tokens")
    return {
        entry["content"]: entry["id"]
        for entry in (added if isinstance(added, list) else ())
        if isinstance(entry, dict)
        and isinstance(entry.get("content"), str)
        and type(entry.get("id")) is int
    }


def _parse(path: Path) -> tuple[Tokenizer, ChildProcess | None]:
    text = read_text(path, LONGEST)
    child = None
    if not check_tokenizer(parse_json(text.encode(), str(path)), str(path), KNOWN_PATTERNS):
        child = ChildProcess({"tokenizer": text})
        _try_out(path, child)
    try:
        return Tokenizer.from_str(text), child
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise BadModel(f"{path} is not a tokenizer: {cause_of(error)}.") from error


def is_panic(error: BaseException) -> bool:
    """Whether the library of tokenizers stopped short; what it raises then is no Exception."""
    return type(error).__name__ == "PanicException"


def _try_out(path: Path, child: ChildProcess) -> None:
    """Refuse a tokenizer that its own process cannot load, or that fails on a plain text."""
    try:
        reply = child.ask({"try": TRIAL})
    except NoAnswer:
        reply = {"failed": "loading it and reading a text with it takes too much time or memory"}
    if "failed" in reply:
        child.close()
        raise BadModel(
            f"{path} is not a tokenizer that can be used: {reply['failed']}. Take the file from the "
            "model's original repository, or leave it out and use token ids."
        )


def _build(folder: Path, architecture: Architecture) -> Tokenizer:
    """Byte-level byte-pair encoding with the architecture's split pattern."""
    paths = {name: find(folder, name) for name in (VOCABULARY, MERGES)}
    vocabulary, merges = paths[VOCABULARY], paths[MERGES]
    if vocabulary is None or merges is None:
        have, lack = (MERGES, VOCABULARY) if vocabulary is None else (VOCABULARY, MERGES)
        raise _incomplete(folder, have, lack)
    if architecture.split_pattern is None:
        raise _incomplete(folder, f"{VOCABULARY} and {MERGES}", WHOLE)
    ids, pairs = _ids(vocabulary), _merges(merges)
    try:
        model = BPE(vocab=ids, merges=pairs)
    except Exception as error:  # the library raises nothing more precise
        reason = cause_of(error)
        raise BadModel(f"{folder}: {VOCABULARY} and {MERGES} do not fit: {reason}.") from error
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(architecture.split_pattern), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    _add_tokens(folder, tokenizer)
    return tokenizer


def _ids(path: Path) -> dict[str, int]:
    """A JSON object of token -> id, each id once."""
    ids: dict[str, int] = {}
    for token, value in read_json(path, LONGEST).items():
        if type(value) is not int or not 0 <= value < LARGEST_ID:
            raise BadModel(f"{path}: the id of {kind_of(token)} must not be {kind_of(value)}.")
        ids[token] = value
    longest = max(map(len, ids), default=0)
    if longest > LONGEST_TOKEN:
        raise BadModel(f"{path} has a token of {longest} characters; {LONGEST_TOKEN} are allowed.")
    if len(set(ids.values())) < len(ids):
        raise BadModel(f"{path} gives one id to two tokens.")
    return ids


def _merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(read_text(path, LONGEST).split("\n"), start=1):
        if not line or line.startswith("#version"):
            continue
        left, space, right = line.partition(" ")
        if not (left and space and right) or " " in right:
            raise BadModel(f"{path}, line {number}: a merge is two tokens with a space between.")
        merges.append((left, right))
    return merges


def _add_tokens(folder: Path, tokenizer: Tokenizer) -> None:
    """Add the tokens beyond the vocabulary; each must get the id that its file gives it."""
    added = _added_tokens(folder)
    if len(added) > MOST_ADDED:
        raise BadModel(f"{folder} has {len(added)} added tokens; at most {MOST_ADDED} are allowed.")
    check_added_length((token.content for token in added.values()), str(folder))
    tokenizer.add_tokens([added[id] for id in sorted(added)])
    for id in sorted(added):
        if tokenizer.token_to_id(added[id].content) != id:
            token = kind_of(added[id].content)
            raise BadModel(f"{folder}: the added token {token} cannot have the id {id}.")


def _added_tokens(folder: Path) -> dict[int, AddedToken]:
    """Added tokens by id: the tokenizer's config describes them, `added_tokens.json` lists more."""
    described = read_tokenizer_config(folder).get("added_tokens_decoder", {})
    if not isinstance(described, dict):
        raise BadModel(f"{folder}: added_tokens_decoder must be an object of id -> token.")
    added = {}
    for id, entry in described.items():
        if not (id.isdecimal() and len(id) < 10 and isinstance(entry, dict)):
            raise BadModel(f"{folder}: added_tokens_decoder has a bad entry {kind_of(id)}.")
        added[int(id)] = _added_token(folder, entry)
    path = find(folder, ADDED)
    for token, number in ({} if path is None else _ids(path)).items():
        known = added.setdefault(number, AddedToken(token, special=True, normalized=False))
        if known.content != token:
            raise BadModel(f"{folder}: {CONFIG} and {ADDED} disagree about the id {number}.")
    return added


def _added_token(folder: Path, entry: Mapping[str, object]) -> AddedToken:
    content = entry.get("content")
    flags = {name: entry.get(name, False) for name in FLAGS}
    if not isinstance(content, str) or not content or set(map(type, flags.values())) != {bool}:
        raise BadModel(f"{folder}: added_tokens_decoder describes {kind_of(content)} wrongly.")
    return AddedToken(content, **{name: bool(flag) for name, flag in flags.items()})


def _incomplete(folder: Path, have: str, lack: str) -> BadModel:
    return BadModel(
        f"{folder} has {have} but no {lack}, so its tokenizer is incomplete; add that file, or "
        f"remove {have} to use the model with token ids only."
    )
