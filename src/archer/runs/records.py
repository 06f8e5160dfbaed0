"""What a run folder holds, as checked types; a field's description is what a refusal says it must be."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_serializer,
    model_validator,
)

from archer.errors import BadRun
from archer.passes.bounds import Share

COUNTS = ("updates", "full_passes", "cached_passes", "reused_passes", "revised_positions")

MOST = 10**24
"""No run counts so far; sums and averages of less are numbers, too."""
LONGEST = 1e9
"""Seconds, some thirty years."""

Count = Annotated[int, Field(ge=0, le=MOST, description="a whole number from 0 to 10^24")]
Time = Annotated[float, Field(ge=0, le=LONGEST)]
Key = Annotated[str | Annotated[int, Field(ge=0)], Field(description="a number or a text")]
RecordedOutcome = Literal["pass", "fail", "timeout", "crash"]
"""What is recorded; a fault of the judge is no verdict."""
Reading = Literal["verdict", "verdict_as_published", "verdict_clean"]


class StoredObject(BaseModel):
    """An object of a file: taken as written, never converted."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    def plain(self) -> dict[str, Any]:
        """As it is written: what was given, in the order of the fields."""
        return self.model_dump(exclude_unset=True)


def _writable(text: str) -> str:
    """No model writes half a surrogate pair, and no file takes one."""
    text.encode()
    return text


class SampleSeconds(StoredObject):
    """Seconds of one completion."""

    full: Time
    cached: Time
    control: Time
    total: Time


class SampleLine(StoredObject):
    """The completion of one problem."""

    event: Literal["sample"] = Field(description="sample")
    id: Key
    prompt_sha256: str = Field(description="a text")
    completion: Annotated[str, AfterValidator(_writable)] = Field(description="a text")
    tokens: list[Annotated[int, Field(ge=0)]] = Field(description="a list of token ids")
    finish_reason: str = Field(description="a text")
    updates: Count
    full_passes: Count
    cached_passes: Count
    reused_passes: Count
    revised_positions: Count
    revised_text: Count = 0
    """Those of them that held text, not an end mark."""
    prompt_tokens: Count
    seconds: SampleSeconds = Field(description="an object of times from 0 to 10^9")
    refresh_fraction: float = Field(description="a number")
    tokens_per_forward: float = Field(description="a number")
    operations: Count
    """Multiplications and additions of all its passes."""
    probed_columns: Count = 0
    """Columns that were computed to find the length of a gap; `operations` has them, too."""

    def count(self, name: str) -> int:
        """One of the COUNTS."""
        return int(getattr(self, name))


class SuiteVerdict(StoredObject):
    """A completion on one suite of its task, in every reading."""

    verdict: RecordedOutcome
    reason: str
    seconds: float
    verdict_as_published: RecordedOutcome
    reason_as_published: str
    verdict_clean: RecordedOutcome | None = None
    """Only where the tests have known faults."""


def _with_base(suites: dict[str, SuiteVerdict]) -> dict[str, SuiteVerdict]:
    if "base" not in suites:
        raise ValueError("no base")
    return suites


class GradeLine(StoredObject):
    """The verdicts on one completion."""

    event: Literal["grade"] = Field(description="grade")
    id: Key
    tier: str | None = Field(description="a text or null")
    suites: Annotated[
        dict[str, SuiteVerdict],
        AfterValidator(_with_base),
        Field(description="an object of suites with their verdicts, one of them base"),
    ]

    def passed(self, suite: str = "base", reading: Reading = "verdict") -> bool:
        return bool(getattr(self.suites[suite], reading) == "pass")


class Problems(StoredObject):
    """Which problems a run is about."""

    n: Annotated[int, Field(ge=1, le=MOST)]


class TaskUsed(StoredObject):
    """Which benchmark."""

    name: str


class Evaluator(StoredObject):
    """What a score means."""

    metric: str


class SettingsUsed(StoredObject):
    """Every setting of a method; all have a length."""

    length: Count


class MethodUsed(StoredObject):
    """What decoded, with every setting."""

    name: str
    settings: SettingsUsed


class ModelUsed(StoredObject):
    """Which model, by the digests of its files."""

    architecture: str
    files: dict[str, str]
    dtype: str
    device: str


class Identity(StoredObject):
    """The parts of a run's identity that readers rely on; the rest is compared as it is."""

    archer: str
    task: TaskUsed
    evaluator: Evaluator
    problems: Problems
    prompts: dict[str, Any]
    method: MethodUsed
    batch: Annotated[int, Field(ge=1, le=MOST)]
    model: ModelUsed


class Circumstances(StoredObject):
    """What times depend on besides the method."""

    platform: str
    cores: int | None
    threads: int


class Manifest(StoredObject):
    """What a run is, and where it was made."""

    journal: Literal[2] = Field(description="2, the only format of journals that this Archer reads")
    identity: Identity
    circumstances: Circumstances


class Score(StoredObject):
    """A share of the problems; nothing is known before all are graded."""

    value: Share | None
    interval: tuple[Share, Share] | None
    as_published: Share | None
    clean: Share | None = None
    """Only where the tests have known faults."""


Sum = Annotated[float, Field(ge=0, le=float(MOST) ** 2)]


def _all_costs(per_problem: dict[str, float | None]) -> dict[str, float | None]:
    missing = {*COUNTS, "seconds"} - per_problem.keys()
    if missing:
        raise ValueError(f"{min(missing)} is missing")
    return per_problem


class Costs(StoredObject):
    """Totals over some problems, and what one of them took on average."""

    updates: int
    full_passes: int
    cached_passes: int
    reused_passes: int
    revised_positions: int
    refresh_fraction: Sum | None
    seconds: Sum
    per_problem: Annotated[dict[str, Sum | None], AfterValidator(_all_costs)]


class Summary(Costs):
    """Scores and costs of a run. In its file the scores stand by name, beside everything else."""

    task: str
    method: str
    settings: dict[str, Any]
    n: int
    complete: bool
    completed: int
    graded: int
    scores: dict[str, Score]
    """By metric: the base suite's first."""
    tiers: list[str]
    measures: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, held: Any) -> Any:
        if not isinstance(held, Mapping) or "scores" in held:
            return held
        names = [key.removesuffix(INTERVAL) for key in held if key.endswith(INTERVAL)]
        parts = {
            f"{name}{end}": (name, part) for name in names for part, end in SCORE_PARTS.items()
        }
        scores: dict[str, dict[str, Any]] = {name: {} for name in names}
        rest = {}
        for key, value in held.items():
            if key in parts:
                name, part = parts[key]
                listed = isinstance(value, list)
                scores[name][part] = tuple(value) if listed else value
            else:
                rest[key] = value
        return rest | {"scores": scores}

    @model_serializer(mode="plain")
    def _spread(self) -> dict[str, Any]:
        scores = {
            f"{name}{SCORE_PARTS[part]}": list(value) if isinstance(value, tuple) else value
            for name, score in self.scores.items()
            for part, value in score.plain().items()
        }
        measures = {} if self.measures is None else {"measures": self.measures}
        return {
            **{name: getattr(self, name) for name in SUMMARY_HEAD},
            **scores,
            **{name: getattr(self, name) for name in Costs.model_fields},
            "tiers": self.tiers,
            **measures,
            **(self.model_extra or {}),
        }


INTERVAL = "_interval"
SCORE_PARTS = {
    "value": "",
    "interval": INTERVAL,
    "as_published": "_as_published",
    "clean": "_clean",
}
"""Parts of a score, and how their names end in the file."""
SUMMARY_HEAD = ("task", "method", "settings", "n", "complete", "completed", "graded")


Kind = TypeVar("Kind", bound=StoredObject)


def as_line(record: Mapping[str, Any], where: str) -> SampleLine | GradeLine:
    """A line of a journal, of either kind."""
    match record.get("event"):
        case "sample":
            return as_held(SampleLine, record, where)
        case "grade":
            return as_held(GradeLine, record, where)
    raise BadRun(f"{where} holds a record of no known kind: {shown(record)}.")


def as_held(kind: type[Kind], value: Mapping[str, Any], where: str) -> Kind:
    """The value as an object of this kind."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = f"{where} is damaged: {_fault(kind, value, error)}"
        raise BadRun.beyond_repair(fault) from error


MOST_SHOWN = 60


def _fault(kind: type[StoredObject], value: Mapping[str, Any], error: ValidationError) -> str:
    """The first field that is wrong and what it must be."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(first["loc"][0])
    field = kind.model_fields.get(name)
    meaning = None if field is None else field.description
    if meaning is None:
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{name} must be {meaning}, not {shown(value.get(name))}"


def shown(value: object) -> str:
    """The beginning of a value from a file, whatever it is."""
    try:
        return repr(str(value)[:MOST_SHOWN])
    except RecursionError:
        return "something nested too deeply"
