"""The pages keep their promises: code runs, commands parse, links lead somewhere, tables are current."""

import ast
import doctest
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import archer
from archer import extend
from archer.cli import COMMANDS, app, with_stdin
from archer.files import bundled_json
from archer.planning import update_rates
from archer.pocket import results
from conftest import REPOSITORY

PAGES = [
    *(
        REPOSITORY / name
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    ),
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted((REPOSITORY / "docs" / "plans").glob("*.md")),
    *(REPOSITORY / "docs" / "results" / name for name in ("performance.md", "default-method.md")),
]
FRAGMENTS = {"judge.md"}
"""Pages whose Python shows calls on names that it does not define; parsed and formatted, not run."""
NO_RUN = "no-run"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^|\n)\n((?:    [^\n]*\n)+)")
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PLACE = re.compile(r"(?:src|tests|docs)/[\w./-]+")
WIDTH = 120
"""Of prose, without what is not seen; tables, code and pictures may be wider."""
SHELL_ENDS = {"|", ">", "<", "&&", ";"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    number: int
    words: tuple[str, ...]
    code: str

    @property
    def runs(self) -> bool:
        return self.words == ("python",) and self.page.name not in FRAGMENTS


def blocks(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(page, n, tuple(info.split()), code) for n, (info, code) in enumerate(found)]


def python_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.words[:1] == ("python",)]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def named(page: Path) -> str:
    return page.name


RUNNABLE = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=named)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of its own, all blocks as one module; the worked examples assert what their page says."""
    monkeypatch.chdir(tmp_path)
    name = f"page_{page.stem.replace('-', '_')}"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    for block in blocks(page):
        if block.runs:
            exec(compile(block.code, f"{page.name}, block {block.number}", "exec"), vars(module))


def test_what_a_page_shows_executed_is_what_it_prints() -> None:
    """All `pycon` blocks of a page, one session."""
    found = 0
    for page in PAGES:
        session = "".join(block.code for block in blocks(page) if block.words == ("pycon",))
        if session:
            example = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
            runner = doctest.DocTestRunner(verbose=False)
            runner.run(example)
            assert runner.failures == 0, page.name
            found += len(example.examples)
    assert found >= 4


def test_the_worked_examples_are_among_what_runs() -> None:
    """Each defines its part and asserts something about it."""
    for page, part in (("add-a-decoder.md", "class Steady"), ("add-a-policy.md", "(PromptCache):")):
        code = "".join(b.code for b in blocks(REPOSITORY / "docs" / page) if b.runs)
        assert part in code
        assert code.count("\nassert ") + code.count("    assert ") >= 4


@pytest.mark.parametrize("page", ["add-a-decoder.md", "add-a-policy.md"])
def test_own_parts_need_the_stable_names_alone(page: str) -> None:
    """Methods of objects, and what parts are made of, as the Python reference lists it."""
    reference = (REPOSITORY / "docs/api.md").read_text()
    imported = [
        (node.module, alias.name)
        for block in blocks(REPOSITORY / "docs" / page)
        if block.runs
        for node in ast.walk(ast.parse(block.code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("archer")
        for alias in node.names
    ]
    assert {module for module, _ in imported} == {"archer", "archer.extend"}
    assert all(name in extend.__all__ for module, name in imported if module == "archer.extend")
    assert all(name in reference for name in extend.__all__)


def test_the_author_of_a_decoder_reads_what_the_page_lists() -> None:
    page = (REPOSITORY / "docs/add-a-decoder.md").read_text()
    listed = [REPOSITORY / place for place in PLACE.findall(page.partition("## What to read")[2])]
    assert [path.name for path in listed] == ["base.py", "saber_dream.py"]
    assert sum(len(path.read_text().splitlines()) for path in listed) + page.count("\n") <= 700


def test_pages_import_only_what_a_user_has_installed() -> None:
    have = {"archer", "numpy", "torch", "pydantic", *sys.stdlib_module_names}
    have |= {"openai", "fastapi"}  # the client of a server, and what a user builds one with
    for block in python_blocks():
        for node in ast.walk(ast.parse(block.code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    [node.module]
                    if isinstance(node, ast.ImportFrom)
                    else [a.name for a in node.names]
                )
                roots = {str(name).partition(".")[0] for name in names}
                assert roots <= have, (block.page.name, roots)


def test_every_python_block_says_whether_it_runs_and_can_be_parsed() -> None:
    for block in python_blocks():
        assert block.words in (("python",), ("python", NO_RUN)), block
        compile(block.code, f"{block.page.name}, block {block.number}", "exec")


def test_python_blocks_are_formatted_as_the_code_is(tmp_path: Path) -> None:
    for block in python_blocks():
        (tmp_path / f"{block.page.stem}-{block.number}.py").write_text(block.code)
    command = [sys.executable, "-m", "ruff", "format", "--check", "--diff", "--no-cache"]
    config = ["--config", str(REPOSITORY / "pyproject.toml")]
    done = subprocess.run([*command, *config, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        place = page if not path else (page.parent / path).resolve()
        assert place.is_relative_to(REPOSITORY), target
        assert place.exists(), target
        if anchor:
            assert anchor in map(generator()["slug"], HEADING.findall(prose(place))), target


def test_every_page_can_be_found_from_the_first() -> None:
    index = REPOSITORY / "docs" / "index.md"
    linked = set(LINK.findall(prose(index)))
    assert {page.name for page in index.parent.glob("*.md")} - {index.name} <= linked


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for code in INLINE.findall(prose(page)):
        if PLACE.fullmatch(code):
            assert (REPOSITORY / code).exists(), code


def test_tests_that_a_page_names_exist() -> None:
    sources = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    shown = {code for page in PAGES for code in INLINE.findall(prose(page))}
    tests = {code for code in shown if re.fullmatch(r"test_\w+", code)}
    assert tests
    assert {name for name in tests if f"def {name}(" not in sources} == set()


def command_lines(page: Path) -> Iterator[list[str]]:
    """Words after `archer` of every command line in a block, up to a pipe or a redirection."""
    text = page.read_text(encoding="utf-8")
    shown = [code for info, code in FENCE.findall(text) if info in ("", "sh", "bash", "text")]
    shown += INDENTED.findall(FENCE.sub("", text))
    for line in "\n".join(shown).replace("\\\n", " ").splitlines():
        if re.search(r"(^|\| |-m )\s*archer [a-z-]", line):
            words = shlex.split(line, comments=True)
            words = words[words.index("archer") + 1 :]
            end = next((at for at, word in enumerate(words) if word in SHELL_ENDS), len(words))
            yield words[:end]


def test_command_lines_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# x\n\n    cat a | archer generate --prompt-file - > b\n\n```sh\narcher doctor # y\n```\n"
        "```bash\ntorchrun -m archer serve \\\n  --shards 2\n```\n"
    )
    found = [["doctor"], ["serve", "--shards", "2"], ["generate", "--prompt-file", "-"]]
    assert list(command_lines(page)) == found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_blocks_are_understood(page: Path) -> None:
    """Parsed as the command line would, options included; nothing is run."""
    for words in command_lines(page):
        assert words[0] in COMMANDS or words[0].startswith("--"), words
        app().parse_args(with_stdin(words), exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_sentences_exist(page: Path) -> None:
    for code in INLINE.findall(prose(page)):
        spelled = re.match(r"archer ([a-z]\S*)", code)
        assert spelled is None or spelled[1] in COMMANDS, code


def test_make_targets_that_a_page_names_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        spelled = re.findall(r"(?:`|^|&& )make ([a-z-]+)", text, re.MULTILINE)
        assert set(spelled) <= targets, page.name


@cache
def generator() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "docs" / "generate.py"))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert generator()["refreshed"](text) == text, "run `make docs`"


def test_the_scores_in_the_package_are_those_of_the_results() -> None:
    kept = Path(results.__file__).with_name(results.FILE).read_text(encoding="utf-8")
    assert generator()["bundled"]() == kept, "run `make docs`"


def test_the_update_rates_in_the_package_are_those_of_the_results() -> None:
    path = Path(update_rates.__file__).with_name(update_rates.FILE)
    kept = path.read_text(encoding="utf-8")
    assert generator()["update_rates_file"]() == kept, "run `make docs`"
    assert set(bundled_json("archer.planning", update_rates.FILE)["methods"]) >= {
        "archer",
        "saber",
        "llada-confidence",
    }


def test_an_outdated_part_is_noticed() -> None:
    old = "a\n<!-- generated: matrix -->\noutdated\n<!-- end of matrix -->\nb\n"
    new = generator()["refreshed"](old)
    assert "outdated" not in new
    assert new.startswith("a\n<!-- generated: matrix -->\n| decoder")
    assert new.endswith("|\n<!-- end of matrix -->\nb\n")


def test_an_outdated_number_is_noticed_and_one_that_nothing_measures_is_refused() -> None:
    refreshed, number = generator()["refreshed"], generator()["number"]
    new = refreshed(
        "It solves <!--=main.pocket.saber.base-->1<!--/--> % of <!--=main.n-->1<!--/-->."
    )
    assert new == (
        "It solves <!--=main.pocket.saber.base-->76.8<!--/--> % of <!--=main.n-->400<!--/-->."
    )
    assert number("main.pocket.saber.n + main.pocket-long.saber.n") == "550"
    assert number("confirm-doubt.n") == "1,000"
    assert number("main.pocket.saber.base - main.pocket.archer.base:.2f") == "4.00"
    assert number("tune-pocket.'saber-doubt+surprise:0.3'.cost") == "0.5"
    with pytest.raises(ValueError, match="not one number"):
        number("main.pocket.base")  # of eleven methods
    with pytest.raises(ValueError, match="not one number"):
        number("main.pocket.no-such-method.base")
    with pytest.raises(ValueError, match="not an expression"):
        number("main.pocket:")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_prose_is_wrapped_at_one_width(page: Path) -> None:
    text = re.sub(
        r"<!-- generated: (\w+) -->.*?<!-- end of \1 -->", "", prose(page), flags=re.DOTALL
    )
    for line in re.sub(r"<!--.*?-->", "", text).splitlines():
        if not line.startswith(("|", "![", "    ")):
            assert len(line) <= WIDTH, line
    for line in text.splitlines():
        assert not line.lstrip().startswith("<!--="), f"Markdown takes this line for HTML: {line}"


@pytest.mark.parametrize("name", ["revision", "sudoku"])
def test_the_picture_of_a_revision_is_what_the_model_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "docs")
    made = runpy.run_path(str(REPOSITORY / "docs" / f"picture_{name}.py"))["drawing"]()
    target = REPOSITORY / "docs" / "images" / f"{name}.svg"
    assert made == target.read_text(encoding="utf-8"), f"run `python docs/picture_{name}.py`"
    assert "taken back" in made
    assert "prefers-color-scheme: dark" in made
    assert "prefers-reduced-motion" in made


def test_the_picture_of_the_rooms_is_what_they_import() -> None:
    script = runpy.run_path(str(REPOSITORY / "docs" / "picture_architecture.py"))
    rooms = set(script["imports"](REPOSITORY / "src"))
    assert rooms == set(script["ABOUT"]), "a room is new or gone: say in ABOUT what it is for"
    target = REPOSITORY / "docs" / "images" / "architecture.svg"
    current = script["drawing"]() == target.read_text(encoding="utf-8")
    assert current, "run `python docs/picture_architecture.py`"


def test_rooms_stand_above_what_they_import() -> None:
    script = runpy.run_path(str(REPOSITORY / "docs" / "picture_architecture.py"))
    uses = {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"e"}, "e": {"d", "c"}}
    assert script["heights"](uses) == {"a": 2, "b": 1, "c": 0, "d": 1, "e": 1}
    assert script["direct"](uses, "a") == {"b"}


def test_the_readme_is_short_and_says_at_once_what_was_not_tried() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert len(readme.encode()) <= 8 * 1024
    assert "not yet run on a GPU" in readme[:600]


def test_the_picture_works_without_colour_and_in_the_dark() -> None:
    """Three fills for light and for dark; what is read from the store is dashed as well."""
    picture = (REPOSITORY / "docs" / "images" / "idea.svg").read_text(encoding="utf-8")
    light, dark = picture.split("prefers-color-scheme: dark")
    for name in (".kept", ".fresh", ".moved", ".ink", ".paper"):
        assert name in light
        assert name in dark
    assert "stroke-dasharray" in light


def test_the_citation_names_the_software_and_the_paper() -> None:
    found: dict[str, Any] = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= found.keys()
    assert found["type"] == "software"
    assert found["version"] == archer.__version__
    assert found["license"] == "Apache-2.0"
    paper = found["preferred-citation"]
    assert paper["type"] == "article"
    assert paper["authors"]
    assert found["title"] != paper["title"]
    readme = " ".join((REPOSITORY / "README.md").read_text("utf-8").split())
    assert paper["title"] in readme


EXAMPLES = {
    "first_steps": "return len",
    "watch_updates": r"update 39: position 2 was ' num', now ' ='",
    "compare_methods": r"dkv-decode +9 full +55 cached",
    "own_decoder": r"return .*\n+\d+ updates, \d+ of them cached",
    "samples": r"prompt 2, sample 3: return",
}


def test_all_examples_are_known() -> None:
    known = {*EXAMPLES, "grpo_pocket"}
    assert {path.stem for path in (REPOSITORY / "examples").glob("*.py")} == known


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(REPOSITORY / "examples" / f"{name}.py"))
    assert re.search(EXAMPLES[name], capsys.readouterr().out)
