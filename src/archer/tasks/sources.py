"""Where the data of the tasks comes from: a table of files with digests, and a folder to find them in.

The folder is the one given, else `data` in the folder that ARCHER_SHARED names, else a cache that is
filled from the pinned origins. Whatever the way, a file is used only if its digest is the one in the
table.
"""

import csv
import gzip
import hashlib
import json
import os
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError

from archer.errors import BadRequest, reason_of

CODE_HOST = "https://github.com"
TIMEOUT_SECONDS = 30
LARGEST = 64 << 20
"""Bytes; every file that comes from a Git repository is far smaller."""


class Unreachable(Exception):
    """A file could not be fetched; the message says why."""


@dataclass(frozen=True)
class Git:
    """A file in a public Git repository at one commit."""

    repository: str
    commit: str
    path: str

    def __str__(self) -> str:
        return f"{CODE_HOST}/{self.repository}/raw/{self.commit}/{self.path}"


@dataclass(frozen=True)
class Hub:
    """A file in a data set of the hub at one commit."""

    repository: str
    commit: str
    path: str

    def __str__(self) -> str:
        return f"the file {self.path} of the hub data set {self.repository}@{self.commit}"


class BadData(BadRequest):
    """A data file is missing, unreadable, damaged or of another version."""


@dataclass(frozen=True)
class DataFile:
    """One file: its place in the data folder, its digest, and where it comes from."""

    path: str
    sha256: str
    origin: Git | Hub | None
    """None for a file that was put together and lies nowhere as it is."""
    remark: str = ""

    def remedy(self) -> str:
        if self.origin is None:
            return f"It cannot be downloaded as it is: {self.remark}. Give the folder it is in."
        return f"Get {self.origin} and put it there, or give another folder of data."


HUMANEVAL = DataFile(
    "humaneval/HumanEval.jsonl.gz",
    "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
    Git(
        "openai/human-eval",
        "6d43fb980f9fee3c892a914eda09951f772ad10d",
        "data/HumanEval.jsonl.gz",
    ),
)
HUMANEVAL_ET = DataFile(
    "humaneval_et/HumanEval_ET.jsonl",
    "c9d9ccd7e299897a423a013ddd59e248b1befb68068d9e74811f1cfad49be0c5",
    Git("zhaoyMa/Saber", "2f061e2", "data/humaneval/HumanEval_ET.jsonl"),
)
HUMANEVAL_ET_FAULTS = DataFile(
    "humaneval_et/known_bad_asserts.json",
    "2189a5fa26067ddd804360dc780fc9be2a4b6a29c84ca9a0a47d40c86570a46c",
    None,
    "it lists the asserts of HumanEval-ET that the reference solutions fail",
)
MBPP = DataFile(
    "mbpp/mbpp_sanitized.jsonl",
    "502db01bcc1e911d691d5212bd3d9c60ee52bbc2bd29457a520ace424bb2709d",
    Git("zhaoyMa/Saber", "2f061e2", "data/mbpp/mbpp_sanitized.jsonl"),
)
MBPP_ET = DataFile(
    "mbpp_et/MBPP_ET_sanitized427.jsonl",
    "b88704705e87905198750b1a00c4293e953d598f19605b163794c47a3e9b4f72",
    None,
    "it holds the 427 rows of MBPP_ET.jsonl (YihongDong/CodeGenEvaluation) with sanitized ids",
)
MBPP_ET_FAULTS = DataFile(
    "mbpp_et/known_bad_asserts.json",
    "a0617ed8912e8b7ae576cb07f3159b7ced9c333d5c5b76a583cf9f0ab373720e",
    None,
    "it lists the asserts of MBPP-ET that the reference solutions fail",
)
LIVECODEBENCH = DataFile(
    "livecodebench/test.jsonl",
    "2bd02b38beb48e8c46b5b9987095d999ff38cd8efc255ea5d58974317c48f63f",
    Hub(
        "livecodebench/code_generation_lite",
        "0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
        "test.jsonl",
    ),
    "1.25 GB, with the hidden tests; `livecodebench-samples` does without",
)
LIVECODEBENCH_SAMPLES = DataFile(
    "livecodebench/lcb_release_v1_questions.jsonl",
    "cc707186c2132ef4e807d1fea6d7f4a0ef45ef8c03f99fac68b39c71589e6acd",
    None,
    "it holds the statements of release_v1 with the samples that were read out of them",
)
LIVECODEBENCH_ACCEPTED = DataFile(
    "livecodebench/lcb_release_v1_graded_solutions.jsonl",
    "e437174ab82ba5d8d694c169bae44f8faa4bead25fbd3f1aa7b40267734311a5",
    None,
    "it holds programs with official verdicts from LiveCodeBench/submissions",
)
MATH500 = DataFile(
    "math500/test.jsonl",
    "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
    Hub(
        "HuggingFaceH4/MATH-500",
        "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        "test.jsonl",
    ),
)
FINQA = DataFile(
    "finqa/finqa_test.jsonl",
    "d5ba0d0c311af079ecf7427a400501cbbc8f42afe154e8d6f13b51c144f9d4dc",
    None,
    "it holds the 1,147 questions of the test set of czyssrs/FinQA with joined texts",
)
PUBMEDQA = DataFile(
    "pubmedqa/ori_pqal.json",
    "8b3276be8942ebbd77f3ddcda12c1749bf0e490045a736fd8438ee40cf37a41d",
    Git(
        "pubmedqa/pubmedqa",
        "1cbae8e92f72f20c8d3747cbb3bf5bc53554d997",
        "data/ori_pqal.json",
    ),
)


Name = TypeVar("Name", int, str)


def _alike(path: str, origin: Git, digests: Mapping[Name, str]) -> dict[Name, DataFile]:
    """Files whose names differ in one place, written {} here and in their origin."""
    return {
        name: DataFile(path.format(name), sha256, replace(origin, path=origin.path.format(name)))
        for name, sha256 in digests.items()
    }


INFILLING = _alike(
    "humaneval_infilling/HumanEval-{}.jsonl.gz",
    Git("openai/human-eval-infilling", "88062ff", "data/HumanEval-{}.jsonl.gz"),
    {
        "SingleLineInfilling": "1277073e7ddce163ef68598c2bca777f688a53df99422f097e37362090f88e1f",
        "MultiLineInfilling": "2f341612eee1d35da1357a4f365e0c0b3ba6e2b62eb491e88aaefa4855af0349",
        "RandomSpanInfilling": "b4f330d8a8ff97bf85d9def497dffcae4d741e506449386a877236e422e33e8d",
        "RandomSpanInfillingLight": "1432250ecac0cb56e6f97f8faf0970419ef892a98fda7e1f5aa4c4b87209b760",
    },
)
SANTACODER = DataFile(
    "santacoder_fim/python.jsonl.gz",
    "589ebb8874f5601ab4f6730921607adbc2c6c2a68e57a4b37311b377e06fcefd",
    None,
    "it holds the 1,043 Python rows of the hub data set bigcode/santacoder-fim-task",
)
GSM8K = DataFile(
    "gsm8k/test.jsonl",
    "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
    Git("openai/grade-school-math", "3101c7d", "grade_school_math/data/test.jsonl"),
)
COUNTDOWN = DataFile(
    "countdown/d1_cd3_test.jsonl",
    "9916f614621e26fb2b035ed4ea641e35e4fff0d533bb9b9c7bcaaa61017d88c6",
    Git("dllm-reasoning/d1", "837888f", "dataset/countdown_cd3_test.jsonl"),
)
COUNTDOWN_STEPS = _alike(
    "countdown/dream_cd{}_test.jsonl",
    Git("DreamLM/Dream", "fac0a7f", "eval/data/cd{}_test.jsonl"),
    {
        3: "14f727ff203f34f7ddcc05108c95f06414ff1baaa6f8e268c6c72699ec08e389",
        4: "c55f37ac962491a1bd9372885827297d22378dcdbb962392dad0747828b2fd39",
        5: "a032617b369385373040e68e4c003bb143894ade669a0da2f0ad1f78e85e2eef",
    },
)
"""By the numbers that are given besides the target."""
SUDOKU = DataFile(
    "sudoku/d1_4x4_test.csv",
    "ef86c7c28ebef88484d85fda59b3909a7b621241aa1abf36343437dbc4a3ffb6",
    Git("dllm-reasoning/d1", "837888f", "dataset/4x4_test_sudoku.csv"),
)
SUDOKU_GRIDS = _alike(
    "sudoku/dream_4x4_{}.jsonl",
    Git("DreamLM/Dream", "fac0a7f", "eval/data/sudoku_4x4_{}.jsonl"),
    {
        4: "e31e11b8af41745fe369ab518c408787d94c720bfa1ce1399e78fb8f3410f9a3",
        5: "7fd5682cd53466ce463d6ec51145832eb7fded72a198fce7b658eb747c5e25c5",
        6: "56b0729a5333c79eb09812d9e001db07147e107bf0cd03eac0ab47cdfa4a503e",
        7: "066da0facc54b7114882c51650a2f2ca700020a68c1ffe1cc698c3f11ca37412",
        8: "e18c0298bd4eda3c5dd11d578a6c73375a9bbf052e30976c6e942ca6175389cd",
        9: "6686e8f8f578e60740fcecd023bc3250b6e1b1a8a7e4472ab70bbeb2521a85a4",
        10: "3f5ceb59a1b2ebca3fa1ca4e4b6c2cfee2818c274e1c66a030148799413151cc",
        11: "de384d57346e5377395f14cbdb5bac346a60250c0ecc5dfeee2a1cf0ac827ef9",
        12: "b558a8a803fcb973a8a37e0b84e0e61cd7f3a188062264aaa4976f3546f7055f",
    },
)
"""By the cells that are given."""


class Data:
    """Finds data files, checks each digest once, and reads them."""

    def __init__(self, folder: Path | None = None) -> None:
        shared = os.environ.get("ARCHER_SHARED")
        if folder is not None and not folder.is_dir():
            raise BadData(f"There is no folder {folder}; give a folder with data files.")
        self.folder = folder or (Path(shared) / "data" if shared else None)
        self.digests: dict[str, str] = {}
        """Digest of every file used so far, by its place in the folder."""

    def path(self, file: DataFile) -> Path:
        """Where a file lies on this machine, with the right digest."""
        place = self._find(file)
        if self.digests.get(file.path) != file.sha256:
            digest = _digest(place)
            if digest != file.sha256:
                if self.folder is None:
                    place.unlink()  # a bad download must not stand in the way of the next
                raise BadData(
                    f"{place} has the sha256 {digest}, but {file.sha256} is needed: the file is "
                    f"damaged or of another version. {file.remedy()}"
                )
            self.digests[file.path] = digest
        return place

    def _find(self, file: DataFile) -> Path:
        place = (self.folder or cache_folder()) / file.path
        if place.is_file():
            return place
        if self.folder is not None or file.origin is None:
            raise BadData(f"{place} is missing. {file.remedy()}")
        try:
            return fetch(file.origin, place)
        except Unreachable as error:
            raise BadData(
                f"{file.path} is not on this machine and could not be fetched ({error}). Get "
                f"{file.origin} elsewhere and save it as {place}."
            ) from None

    def whereabouts(self, files: Sequence[DataFile]) -> str:
        """Whether the files of a task are on this machine; nothing is fetched and nothing read."""
        if not files:
            return "bundled"
        folder = self.folder or cache_folder()
        if all((folder / file.path).is_file() for file in files):
            return "here"
        fetched = self.folder is None and all(file.origin is not None for file in files)
        return "fetched when used" if fetched else "not on this machine"

    def rows(self, file: DataFile) -> Iterator[dict[str, Any]]:
        """The records of a file with one JSON object per line, plain or packed by gzip."""
        path = self.path(file)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            yield from (json.loads(line) for line in lines if line.strip())

    def table(self, file: DataFile) -> list[dict[str, str]]:
        """The rows of a file of comma-separated values, by the names in its first line."""
        with self.path(file).open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))

    def object(self, file: DataFile) -> dict[str, Any]:
        """The one object of a JSON file."""
        read: dict[str, Any] = json.loads(self.path(file).read_bytes())
        return read


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadData(f"{path} cannot be read ({reason_of(error)}).") from error


def cache_folder() -> Path:
    """Where fetched files are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archer" / "data"


def fetch(origin: Git | Hub, place: Path) -> Path:
    """Fetches a file; the hub's own cache keeps what comes from the hub, `place` all else."""
    return _from_hub(origin) if isinstance(origin, Hub) else _from_git(origin, place)


def _from_git(origin: Git, place: Path) -> Path:
    try:
        with urllib.request.urlopen(str(origin), timeout=TIMEOUT_SECONDS) as response:
            content = response.read(LARGEST)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(place)
    except (OSError, HTTPException) as error:
        raise Unreachable(_why(error)) from error
    return place


def _why(error: OSError | HTTPException) -> str:
    """The reason in plain words; urllib wraps what the operating system says."""
    if isinstance(error, URLError) and isinstance(error.reason, OSError):
        return reason_of(error.reason)
    return str(error) or type(error).__name__


def _from_hub(origin: Hub) -> Path:
    # Imported here, because it takes long to import and is seldom needed.
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(
            origin.repository, origin.path, repo_type="dataset", revision=origin.commit
        )
    except Exception as error:  # network libraries differ by version and share no root
        raise Unreachable(" ".join(str(error).split()) or type(error).__name__) from error
    return Path(path)


@dataclass(frozen=True)
class ExtendedTests:
    """The extended asserts of one problem as published, and which of them the reference itself fails.

    The clean variant, without those, is reported beside the other, never instead.
    """

    entry_point: str
    asserts: tuple[str, ...]
    faulty: frozenset[int]

    def clean(self) -> tuple[str, ...]:
        """The asserts that the reference passes."""
        return tuple(text for n, text in enumerate(self.asserts) if n not in self.faulty)


def read_extended(
    data: Data, tests: DataFile, asserts: str, faults: DataFile, reference: str
) -> dict[str, ExtendedTests]:
    """By id as text. `asserts` and `reference` name the fields of the two files."""
    known: Mapping[str, Mapping[str, Any]] = data.object(faults)[reference]
    rows = {}
    for row in data.rows(tests):
        bad = known.get(str(row["task_id"]), {"bad": ()})["bad"]
        faulty = frozenset(int(number) for number, _ in bad)
        rows[str(row["task_id"])] = ExtendedTests(row["entry_point"], tuple(row[asserts]), faulty)
    return rows
