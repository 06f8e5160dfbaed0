"""A model by name -> a folder here; only data files come from the hub, never code or pickles."""

import logging
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from archer.errors import BadModel, BadRequest, cause_of, meant
from archer.loading.model_files import is_folder

FETCHED = ["*.safetensors", "*.json", "*.txt", "*.jinja"]
NOT_FETCHED = ["*/*"]
"""Nothing in subfolders: other formats of the same weights, logs of training runs."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{7,40}")
PACKAGE = "archer.pocket"
"""Holds the models that come with Archer."""


@dataclass(frozen=True)
class Bundled:
    """A model that comes with the package."""

    folder: str
    note: str


BUNDLED = {
    "pocket": Bundled("model", "LLaDA's architecture; what every command uses by default"),
    "pocket-dream": Bundled("model-dream", "trained alike in Dream's architecture: shifted logits"),
    "pocket-blind": Bundled(
        "model-blind", "trained alike with a prompt that never sees the response"
    ),
    "pocket-sudoku": Bundled("model-sudoku", "fills Sudoku grids: `archer demo sudoku`"),
}
REMEDY = "download it elsewhere and give the folder in place of the name"

log = logging.getLogger(__name__)


def locate(
    model: str | Path,
    revision: str | None = None,
    *,
    endpoint: str | None = None,
    cache: Path | None = None,
) -> Path:
    """The folder of a model, fetched if it is a hub id; `endpoint` and `cache` replace the hub's own."""
    folder, name = Path(model), str(model)
    if name and is_folder(folder):
        if revision is not None:
            raise BadRequest(f"{folder} is a folder and has no revisions; leave the revision out.")
        return folder
    if name in BUNDLED:
        if revision is not None:
            raise BadRequest(f"{name} is bundled and has no revisions; leave the revision out.")
        return Path(str(files(PACKAGE))) / BUNDLED[name].folder
    if isinstance(model, Path) or not HUB_ID.fullmatch(name):
        raise BadModel(
            f"There is no folder {name!r}, and it is not a hub id such as "
            f"'GSAI-ML/LLaDA-8B-Instruct' either.{meant(name, BUNDLED)}"
        )
    folder = _fetch(name, revision, endpoint, cache)
    if revision is None or not COMMIT.fullmatch(revision):
        log.warning("%s is not pinned to a commit; results may change with the hub.", name)
    return folder


def _fetch(name: str, revision: str | None, endpoint: str | None, cache: Path | None) -> Path:
    # Imported here, because local folders need no hub client and it takes long to import.
    from huggingface_hub import errors, snapshot_download

    try:
        path = snapshot_download(
            name,
            revision=revision,
            allow_patterns=FETCHED,
            ignore_patterns=NOT_FETCHED,
            endpoint=endpoint,
            cache_dir=cache,
        )
    except errors.GatedRepoError as error:
        raise BadModel(
            f"{name} asks for its conditions to be accepted on the hub first; do so and log in "
            f"(hf auth login), or {REMEDY}."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise BadModel(
            f"The hub knows no model {name}, or shows it only to its members; check the spelling, "
            f"log in (hf auth login), or {REMEDY}."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise BadModel(
            f"The hub has {name}, but not its revision {revision!r}; take a commit from the "
            "history of the repository."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise BadModel(
            f"{name} is not on this machine and the hub is out of reach; {REMEDY}."
        ) from error
    except Exception as error:  # network libraries differ by version and share no root
        raise BadModel(f"{name} could not be fetched ({cause_of(error)}); {REMEDY}.") from error
    log.info("%s is commit %s", name, Path(path).name)
    return Path(path)
