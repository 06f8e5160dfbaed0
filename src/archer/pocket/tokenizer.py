"""The closed vocabulary as an ordinary `tokenizers` file.

Text is cut into words, numbers, letters in quotes, symbols and line breaks with their indentation, each
with the space before it. Known pieces are one token; anything else falls back to single characters, so
every ASCII text survives encoding and decoding unchanged. Numbers below 100 are one token each.
"""

import json
from collections.abc import Sequence
from importlib.resources import files

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Split

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for what is not ASCII; an ordinary piece, so that a prompt with it is not refused."""
BEGIN, END, MASK = "<|bos|>", "<|eos|>", "<|mask|>"
USER, ASSISTANT = "<|user|>", "<|assistant|>"
SPECIAL = (BEGIN, END, MASK, USER, ASSISTANT)

PIECE = r" ?[A-Za-z_]+| ?[0-9]+| ?'[A-Za-z]'| ?'-'| ?''| ?'|\n *| ?[^\sA-Za-z0-9_']+|\s"

TEMPLATE = (
    "{{ bos_token }}"
    "{%- for message in messages -%}"
    "{%- set content = message['content'].strip() -%}"
    "{%- if message['role'] == 'assistant' -%}"
    "{{ '<|assistant|>' + content + '<|eos|>' }}"
    "{%- else -%}"
    "{%- set cut = content.rpartition('\\n') -%}"
    "{%- if loop.last and cut[2].startswith('def ') -%}"
    "{{ '<|user|>' + cut[0] + '<|assistant|>' + cut[2] }}"
    "{%- elif loop.last -%}"
    "{{ '<|user|>' + content + '<|assistant|>' }}"
    "{%- else -%}"
    "{{ '<|user|>' + content }}"
    "{%- endif -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
)
"""A message that ends with the line `def name(arguments):` has that line moved behind the assistant's
mark: the model then writes the body only."""


def vocabulary() -> list[str]:
    """All pieces in the order of their ids."""
    text = files("archer.pocket").joinpath("data/vocabulary.json").read_text(encoding="utf-8")
    pieces: list[str] = json.loads(text)
    return pieces


def build(pieces: Sequence[str] | None = None, pattern: str = PIECE) -> Tokenizer:
    """The tokenizer, as it is written to tokenizer.json; of another vocabulary, where one is given."""
    ids = {piece: index for index, piece in enumerate(pieces or vocabulary())}
    model = WordPiece(
        ids, unk_token=UNKNOWN, continuing_subword_prefix="", max_input_chars_per_word=10_000
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = Fuse()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return tokenizer


def token_id(name: str) -> int:
    """The id of a special token."""
    return vocabulary().index(name)


def settings() -> dict[str, object]:
    """What stands in tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": END,
        "mask_token": MASK,
        "unk_token": UNKNOWN,
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "chat_template": TEMPLATE,
    }
