"""Text <-> token ids for one model: prompts in, responses out, single tokens for display."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from archer.errors import BadModel, BadRequest, cause_of
from archer.loading.checkpoint import Folder
from archer.loading.model_files import some_of
from archer.loading.text.chat_template import REMEDY, ChatTemplate, Message, read_template
from archer.loading.text.child_process import ChildProcess, NoAnswer
from archer.loading.text.token_bytes import TokenBytes, byte_alphabet, read_token_bytes
from archer.loading.text.tokenizer_files import (
    LARGEST_ID,
    is_panic,
    read_tokenizer,
    read_tokenizer_config,
    token_names,
)

Chat = str | Sequence[Mapping[str, object]]
"""One prompt of a chat model: the user's text, or messages with `role` and `content`."""
LONGEST_WORD = 256
"""Characters of a word that WordPiece may take apart; the time for that grows with their third power."""


class UnsureEnd(Enum):
    """What further tokens may change of the text so far.

    A decoder turns all tokens into one text at once.  Most only append when a token is added; some rewrite
    the end: bytes become a character only when it is complete, and a run of byte tokens becomes text only if
    all of it is valid.  What is not known to append is taken to rewrite everything.
    """

    NOTHING = auto()
    CHARACTER = auto()
    """The last character, where it stands for bytes that are no whole one yet."""
    BYTES = auto()
    """What the byte tokens at the end make."""
    EVERYTHING = auto()


@dataclass(frozen=True)
class Text:
    """The text codec of a model folder. It never adds tokens that the prompt does not spell."""

    where: str
    tokenizer: Tokenizer
    template: ChatTemplate | None
    added: Mapping[str, int]
    """Tokens that are more than pieces of text: markers of turns, of masks, of the end."""
    end_ids: frozenset[int]
    """Ids after which a response is over."""
    mask: int
    child: ChildProcess | None = field(default=None, repr=False, compare=False)
    """Where texts are encoded, because the tokenizer is not one of those that may do so here."""

    def encode_chat(self, chat: Chat, *, allow_special: bool = False) -> list[int]:
        """One prompt by the folder's chat template."""
        return self.encode_chats([chat], allow_special=allow_special)[0]

    def encode_chats(
        self,
        chats: Sequence[Chat],
        *,
        prefixes: Sequence[str] | None = None,
        allow_special: bool = False,
    ) -> list[list[int]]:
        """Many prompts at the price of one rendering; `prefixes` open the answers, each behind its chat."""
        begun = [""] * len(chats) if prefixes is None else prefixes
        if self.template is None:
            raise BadRequest(f"{self.where} has no chat template; {REMEDY}.")
        conversations = [_messages(chat) for chat in chats]
        texts = [part for each in conversations for message in each for part in message.values()]
        self._checked_ids([*texts, *begun], allow_special)
        rendered = self.template.render(conversations)
        return self._ids([text + prefix for text, prefix in zip(rendered, begun, strict=True)])

    def encode_raw(self, text: str, *, allow_special: bool = False) -> list[int]:
        """The text as it stands, without template and without a begin-of-text token."""
        return self.encode_raws([text], allow_special=allow_special)[0]

    def encode_raws(self, texts: Sequence[str], *, allow_special: bool = False) -> list[list[int]]:
        """Several texts as they stand, in the time that one may take."""
        if not all(texts):
            raise BadRequest("The prompt is empty; give some text.")
        return self._checked_ids(texts, allow_special)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a response; special tokens, masks and ids without a token leave no trace."""
        with self._guarded():
            return self.tokenizer.decode(self._known(ids), skip_special_tokens=True)

    def decode_whole(self, ids: Iterable[int]) -> str:
        """The text with its special tokens spelled out, such as a prompt with the marks of its turns."""
        with self._guarded():
            return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def decode_certain(self, ids: Iterable[int]) -> str:
        """The beginning of `decode(ids)` that stays whatever ids follow these."""
        known = self._known(ids)
        match self._unsure_end:
            case UnsureEnd.EVERYTHING:
                return ""
            case UnsureEnd.BYTES:
                while known and self._may_join_bytes(known[-1]):
                    known.pop()
            case _:
                pass
        with self._guarded():
            text = self.tokenizer.decode(known, skip_special_tokens=True)
        whole = self._unsure_end is not UnsureEnd.CHARACTER
        return text if whole else text.removesuffix("\N{REPLACEMENT CHARACTER}")

    def piece(self, id: int) -> str:
        """How one id looks: its text, a marker's name, or escaped bytes if it is no whole text."""
        token = self._token(id)
        if token is None:
            return f"<{id}>"
        if token in self.added:
            return token
        text = self.decode_whole([id])
        alphabet = byte_alphabet()
        if "\N{REPLACEMENT CHARACTER}" in text and set(token) <= alphabet.keys():
            text = bytes(alphabet[c] for c in token).decode("utf-8", "backslashreplace")
        return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)

    def spelled_specials(self, text: str) -> list[str]:
        """Added tokens that the text spells out, or that it would be encoded to."""
        return self._spelled(text, *self._ids([text]))

    def _spelled(self, text: str, ids: Sequence[int]) -> list[str]:
        own = set(ids)
        return [token for token, id in self.added.items() if token in text or id in own]

    def _checked_ids(self, texts: Sequence[str], allow_special: bool) -> list[list[int]]:
        encoded = self._ids(texts)
        for text, ids in zip(texts, encoded, strict=True):
            spelled = self._spelled(text, ids)
            if spelled and not allow_special:
                raise BadRequest(
                    f"The prompt spells the special token {some_of(spelled)}, which the model would "
                    "take for the real one; change the text, or allow it (allow_special=True)."
                )
        return encoded

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            "".join(texts).encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadRequest("The prompt is not valid Unicode text.") from error
        if self.child is not None:
            ids: list[list[int]] = self._answer_of(self.child, {"encode": list(texts)})
            return ids
        return [self._ids_here(text) for text in texts]

    def _ids_here(self, text: str) -> list[int]:
        """The ids of one text, as a batch: `encode` would stop every other thread for as long as it takes."""
        if len(text) > LONGEST_WORD and isinstance(self.tokenizer.model, WordPiece):
            self._check_words(text)
        with self._guarded():
            (encoded,) = self.tokenizer.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoded.ids
        return ids

    def words(self, text: str) -> list[str]:
        """The pieces into which the tokenizer splits a text before it looks for tokens."""
        if self.child is not None:
            return list(self._answer_of(self.child, {"words": text}))
        splitter = self.tokenizer.pre_tokenizer
        with self._guarded():
            return [text] if splitter is None else [w for w, _ in splitter.pre_tokenize_str(text)]

    def _answer_of(self, child: ChildProcess, request: dict[str, Any]) -> Any:
        try:
            reply = child.ask(request)
        except NoAnswer as error:
            raise BadRequest(
                f"The tokenizer of {self.where} takes too much time or memory for this text. Shorten it, "
                "or give token ids."
            ) from error
        if "failed" in reply:
            raise self._failure(reply["failed"])
        return reply["value"]

    def _failure(self, reason: str) -> BadModel:
        return BadModel(
            f"The tokenizer of {self.where} fails on this text: {reason}. Take it from the "
            "model's original repository."
        )

    def _check_words(self, text: str) -> None:
        """Refuse a word for which a search for its pieces, from each letter to each other, takes minutes."""
        normalizer = self.tokenizer.normalizer
        with self._guarded():
            plain = text if normalizer is None else normalizer.normalize_str(text)
        longest = max(map(len, self.words(plain)), default=0)
        if longest > LONGEST_WORD:
            raise BadRequest(
                f"The prompt has a word of {longest} characters; the tokenizer of {self.where} takes "
                f"words of at most {LONGEST_WORD}. Put spaces into it."
            )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever the library that tokenizes raises, its panics too, becomes an error like others."""
        try:
            yield
        except BaseException as error:
            if not (isinstance(error, Exception) or is_panic(error)):
                raise
            raise self._failure(cause_of(error)) from error

    @cached_property
    def pieces(self) -> TokenBytes | None:
        """The bytes of every token; None where the tokenizer does more than join them."""
        return read_token_bytes(self.tokenizer, forbidden={self.mask, *self.end_ids})

    @cached_property
    def _unsure_end(self) -> UnsureEnd:
        return unsure_end(self.tokenizer)

    def _may_join_bytes(self, id: int) -> bool:
        """A byte token, or one that may leave no trace between two of them."""
        token = self._token(id)
        return token is None or token in self.added or is_byte(token)

    def _known(self, ids: Iterable[int]) -> list[int]:
        return [id for id in ids if self._token(id) is not None and id != self.mask]

    def _token(self, id: int) -> str | None:
        return self.tokenizer.id_to_token(id) if 0 <= id < LARGEST_ID else None


def read_text(folder: Folder) -> Text | None:
    """The codec of the folder; None where it has no tokenizer and takes token ids only."""
    read = read_tokenizer(folder.path, folder.architecture, folder.shape.vocabulary)
    if read is None:
        return None
    tokenizer, child = read
    config = read_tokenizer_config(folder.path)
    names, row = token_names(folder.path, config), folder.architecture
    ends = map(tokenizer.token_to_id, row.turn_ends)
    added = {each.content: id for id, each in tokenizer.get_added_tokens_decoder().items()}
    return Text(
        where=str(folder.path),
        tokenizer=tokenizer,
        template=read_template(folder.path, config, names, row.template),
        added=added,
        end_ids=frozenset(folder.eos) | {id for id in ends if id is not None},
        mask=folder.mask,
        child=child,
    )


def unsure_end(tokenizer: Tokenizer) -> UnsureEnd:
    """Told from the declaration of the tokenizer's decoder."""
    if tokenizer.decoder is None:
        return UnsureEnd.NOTHING
    declared = json.loads(tokenizer.decoder.__getstate__())
    parts = declared["decoders"] if declared["type"] == "Sequence" else [declared]
    unsure, joined = UnsureEnd.NOTHING, False
    for part in parts:
        match part["type"], joined:
            case ("Fuse", _) | ("Replace" | "Metaspace" | "WordPiece", False):
                pass
            case ("Strip", _) if not (joined and part["stop"]):
                pass
            case "ByteLevel", False if unsure is UnsureEnd.NOTHING:
                unsure = UnsureEnd.CHARACTER
            case "ByteFallback", False if unsure is UnsureEnd.NOTHING:
                unsure = UnsureEnd.BYTES
            case _:
                return UnsureEnd.EVERYTHING
        joined = joined or _joins(part)
    return unsure


def is_byte(token: str) -> bool:
    """A token that stands for one byte, such as <0x0A>."""
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")


def _joins(part: Mapping[str, Any]) -> bool:
    """Makes one piece of all tokens; what comes after it sees the whole text."""
    return part["type"] in {"Fuse", "ByteLevel"}


def _messages(chat: Chat) -> list[Message]:
    messages = [{"role": "user", "content": chat}] if isinstance(chat, str) else chat
    checked: list[Message] = []
    for message in messages:
        match message:
            case {"role": str(role), "content": str(content), **rest} if not rest:
                checked.append({"role": role, "content": content})
            case _:
                raise BadRequest(
                    "A chat message must have a role and a content, both text, and no more."
                )
    if not any(message["content"].strip() for message in checked):
        raise BadRequest("The prompt is empty; give some text.")
    return checked


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
