"""What an operator chooses: one declaration for the command line, Ray Serve and any other host."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from archer.errors import BadRequest
from archer.files import utf8_text

if TYPE_CHECKING:
    from archer.methods.presets import Preset

SHORTEST_KEY = 16
MOST = 1e9
"""Seconds or GiB that anybody means."""
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0, le=MOST)]
Origin = Annotated[str, AfterValidator(lambda origin: check_origin(origin)), Field(max_length=256)]

Ignored = Annotated[str, AfterValidator(lambda name: check_ignored(name))]


class ServerSettings(BaseModel):
    """How a server works; the options of `archer serve` are made of it.  Its files are read where it runs."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    budget: Count | None = None
    """Columns per pass [default: measured at the start]."""
    memory: Amount | None = None
    """GiB for running requests [default: half of what is free at the start]."""
    max_length: Count = 1024
    """Longest response allowed, in tokens."""
    queue: Count = 64
    """Maximum number of waiting prompts."""
    queue_timeout: Amount = 60.0
    """Maximum seconds that a request may wait."""
    timeout: Amount = 600.0
    """Maximum seconds from arrival to the last token."""
    rows_per_key: Count = 16
    """Maximum responses that one key may have running at a time."""
    drain: Annotated[float, Field(ge=0, le=MOST)] = 30.0
    """Seconds that running requests get to finish when the server is asked to stop."""
    api_key_file: Path | None = None
    """File with API keys, one per line; without it, anyone on this machine may send requests."""
    without_key: bool = False
    """Answer to anyone, by any name, without a key: where something in front decides who may ask."""
    page: bool = True
    """Serve the page at /."""
    served_model_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What clients call the model [default: the hub id, or the folder's name]."""
    cors_origin: tuple[Origin, ...] = ()
    """Origin whose pages may read answers, such as https://chat.example; may be given several times."""
    method: str | None = None
    """Method for requests that name none [default: what the model was released with]."""
    allow_own_code: bool = False
    """Let the method be code in a file, ./mine.py:MyDecoder, which runs in the server; requests may name it,
    too."""
    preset: Path | None = None
    """The same as a preset file from `archer tune`, with settings."""
    ignore: tuple[Ignored, ...] = ()
    """Unsupported fields to ignore instead of refusing them, such as frequency_penalty,presence_penalty;
    replies say which were."""
    allow_weight_updates: Path | None = None
    """Let clients with a key change the weights to those of folders below this one."""

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else int(self.memory * (1 << 30))

    def read_files(self) -> None:
        """Refuse a bad key file or preset now, before anything starts."""
        _ = self.keys, self.decoding
        if self.allow_weight_updates is None:
            return
        if not self.keys:
            raise BadRequest(
                "Weights can be changed by clients only where keys protect the server. Give a file of keys."
            )
        if not self.allow_weight_updates.is_dir():
            raise BadRequest(f"{str(self.allow_weight_updates)!r} is not a folder of new weights.")

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys in the file; none without a file."""
        return () if self.api_key_file is None else read_keys(self.api_key_file)

    @cached_property
    def decoding(self) -> Preset | None:
        """The operator's method or preset; refused where its responses are longer than those allowed."""
        from archer.methods.build import build
        from archer.methods.own_files import bring
        from archer.methods.presets import Preset, open_preset

        if self.allow_own_code:
            bring(self.method)
        if self.method is not None:
            if self.preset is not None:
                raise BadRequest(
                    f"The preset {self.preset} names a method: leave out {self.method!r}."
                )
            build(self.method, {})
            return Preset(self.method, {})
        if self.preset is None:
            return None
        preset = open_preset(self.preset)
        length = preset.settings.get("length", 0)
        if length > self.max_length:
            raise BadRequest(
                f"The preset {self.preset} asks for responses of {length} tokens, and {self.max_length} "
                "are allowed: raise max_length."
            )
        return preset


def check_origin(origin: str) -> str:
    """Refuse what no browser sends as the origin of a page, patterns such as * among it."""
    if re.fullmatch(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?", origin) is None:
        raise ValueError(
            "should be an origin such as https://chat.example or http://localhost:3000"
        )
    return origin


def check_ignored(name: str) -> str:
    """Refuse what is no field that would be refused: a mistyped name would ignore nothing."""
    from archer.server.request_schema import NEUTRAL

    if name not in NEUTRAL:
        raise ValueError(f"should name fields that are refused otherwise ({', '.join(NEUTRAL)})")
    return name


def read_keys(path: Path) -> tuple[str, ...]:
    """One key per line; empty lines and lines that begin with # are left out."""
    lines = utf8_text(path.read_bytes, f"The key file {str(path)!r}").splitlines()
    keys = tuple(
        line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")
    )
    if not keys:
        raise BadRequest(f"The key file {str(path)!r} holds no key. Write one per line.")
    if any(len(key) < SHORTEST_KEY or not key.isascii() or " " in key for key in keys):
        raise BadRequest(
            f"A key in {str(path)!r} is shorter than {SHORTEST_KEY} characters or is not plain ASCII. "
            "`openssl rand -hex 24` makes a good one."
        )
    return keys
