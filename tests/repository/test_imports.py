"""Who may import whom, and what no module may do: read from the sources, not from a diagram."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import archer

PACKAGE = Path(archer.__file__).parent
PACKAGES = ("archer", "archer_studies")
SOURCES = PACKAGE.parent
ROOMS = (
    *("archer", "errors", "files", "machine", "network", "passes"),
    *("decoders", "policies", "extend", "methods", "structure", "results", "engine"),
    *("loading", "shards", "request", "score", "model", "comparison"),
    *("pages", "judge", "pocket", "tasks", "runs", "terminal", "server"),
    *("costs", "bench", "planning", "tune", "integrations", "archer_studies", "checks", "cli"),
)
"""Every room and every file beside them, in the order in which they build on each other."""
SHOWN_BY = {("archer.results.notebook", "pages")}
"""Imported when it is called: a notebook asks a result for its player, and a page is made of results."""
DECODERS_MAY_USE = (
    "archer.passes.canvas",
    "archer.passes.logits",
    "archer.passes.bounds",
    "archer.passes.noise",
    "archer.errors",
    "archer.decoders",
)
POLICIES_MAY_USE = (
    "archer.passes.canvas",
    "archer.passes.memory",
    "archer.passes.logits",
    "archer.passes.reduction",
    "archer.passes.bounds",
    "archer.passes.layer_rule",
    "archer.errors",
    "archer.policies",
)
FORBIDDEN_MODULES = {"pickle", "dill", "cloudpickle", "shelve", "marshal"}
FORBIDDEN_CALLS = {"print", "eval", "exec"}
FORBIDDEN_METHODS = {"cuda"}
UNPICKLING = {("torch", "load")}


def sources(*, without: tuple[str, ...] = ()) -> list[Path]:
    """Every module of the package; `without` names folders that answer for themselves."""
    return [
        path
        for package in (PACKAGE, SOURCES / "archer_studies")
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in without
    ]


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    """A folder of the package, or a file beside them."""
    package, _, inside = module.partition(".")
    return inside.partition(".")[0] or package if package == "archer" else package


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path: Path) -> Iterator[str]:
    """Full names of all that a module imports anywhere, names taken from a package included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from named(path, node)


def named(path: Path, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that one statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    source = ".".join(filter(None, (home(path, node.level), node.module)))
    folder = SOURCES / source.replace(".", "/")
    for alias in node.names:
        module = folder / alias.name
        inside = module.is_dir() or module.with_suffix(".py").is_file()
        yield f"{source}.{alias.name}" if inside else source


def home(path: Path, level: int) -> str:
    """The package that a relative import starts from; nothing for an absolute one."""
    parts = path.relative_to(PACKAGE.parent).parts if level else ()
    return ".".join(parts[: len(parts) - level])


def inside(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in allowed)


def trespasses(path: Path, allowed: tuple[str, ...]) -> list[str]:
    """What a module imports of the package beyond what it may."""
    own = [module for module in imported(path) if inside(module, ("archer",))]
    return [module for module in own if not inside(module, allowed)]


def run_time_imports(path: Path, *, called: bool) -> set[str]:
    """Modules of the package that a module imports when it is imported; or when it is `called`.

    What is imported for type checkers alone is no part of either.
    """
    found: dict[bool, set[str]] = {False: set(), True: set()}

    def visit(node: ast.AST, later: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            found[later].update(named(path, node))
        later = later or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, later)

    visit(tree(path), False)
    return {module for module in found[called] if module.partition(".")[0] in PACKAGES}


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one module, by Tarjan."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        path.append(module)
        for other in graph.get(module, ()):
            if other not in order:
                visit(other)
            if other in path:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            at = path.index(module)
            found.append(set(path[at:]))
            del path[at:]

    for module in graph:
        if module not in order:
            visit(module)
    return [each for each in found if len(each) > 1]


def test_no_two_modules_need_each_other_to_be_imported() -> None:
    graph = {name_of(path): run_time_imports(path, called=False) for path in sources()}
    assert len(graph) > 200
    assert cycles(graph) == []


def test_cycles_are_seen() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"f", "a"}}
    assert sorted(map(sorted, cycles(graph))) == [["a", "b", "c"], ["d", "e"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}}) == []


def test_a_room_imports_earlier_rooms_only() -> None:
    upward: set[tuple[str, str]] = set()
    late: set[tuple[str, str]] = set()
    for path in sources():
        name = name_of(path)
        if name == "archer.__main__":
            continue
        at = ROOMS.index(room_of(name))
        for called, seen in ((False, upward), (True, late)):
            rooms = map(room_of, run_time_imports(path, called=called))
            seen |= {(name, room) for room in rooms if ROOMS.index(room) > at}
    assert upward == set()
    assert late == SHOWN_BY


def test_few_files_stand_beside_the_rooms() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 10


@pytest.mark.parametrize(
    ("folder", "allowed"), [("decoders", DECODERS_MAY_USE), ("policies", POLICIES_MAY_USE)]
)
def test_decoders_and_policies_know_neither_each_other_nor_the_model(
    folder: str, allowed: tuple[str, ...]
) -> None:
    files = sorted((PACKAGE / folder).glob("*.py"))
    assert len(files) > 2
    assert {name_of(path): found for path in files if (found := trespasses(path, allowed))} == {}


def test_other_tools_are_imported_by_their_integration_alone() -> None:
    """Only the command that starts a tool may name it outside, and only when it is called."""
    for path in sources(without=("integrations",)):
        found = [
            name for name in imported(path) if inside(name, ("archer.integrations", "lm_eval"))
        ]
        assert found == [] or path == PACKAGE / "cli" / "lm_eval.py", name_of(path)


def test_nothing_unpickles() -> None:
    for path in sources():
        found = {module.partition(".")[0] for module in imported(path)} & FORBIDDEN_MODULES
        assert found == set(), name_of(path)


GONE = (
    "asynchat asyncore distutils imp smtpd "  # in 3.12
    "aifc audioop cgi cgitb chunk crypt imghdr mailcap msilib nis nntplib ossaudiodev pipes sndhdr spwd "
    "sunau telnetlib uu xdrlib lib2to3"  # in 3.13
)
"""Standard modules that later Pythons no longer have."""


def test_nothing_imports_what_later_pythons_lack() -> None:
    gone = set(GONE.split())
    for path in sources():
        assert {module.partition(".")[0] for module in imported(path)} & gone == set(), path


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def offences(path: Path) -> Iterator[str]:
    """Calls that no module may make."""
    for call in calls(path):
        match call.func:
            case ast.Name(name) if name in FORBIDDEN_CALLS:
                yield name
            case ast.Attribute(ast.Name(owner), name) if (owner, name) in UNPICKLING:
                yield f"{owner}.{name}"
            case ast.Attribute(_, name) if name in FORBIDDEN_METHODS:
                yield f".{name}("
        yield from (word.arg for word in call.keywords if word.arg == "trust_remote_code")


def test_nothing_prints_evaluates_unpickles_or_names_a_vendor() -> None:
    """The judge runs programs on purpose, in a process of its own, and answers for itself."""
    made = {
        (name_of(path), call) for path in sources(without=("judge",)) for call in offences(path)
    }
    assert made == set()


@pytest.mark.parametrize(
    "line",
    [
        "print(1)",
        "eval('1')",
        "exec('1')",
        "torch.load('x')",
        "model.cuda()",
        "f(trust_remote_code=False)",
    ],
)
def test_offences_are_seen(tmp_path: Path, line: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"def work():\n    return {line}\n", encoding="utf-8")
    assert len(list(offences(path))) == 1


SPEAK_OF_OPTIONS = ("cli", "integrations", "judge")
"""The command line, the glue to the harness's own options, and programs started with options."""
STARTS_A_COMMAND = {"archer.bench.serve", "archer_studies.beyond.frontier"}
"""Or says by which command a row of its table is decoded."""
OPTION = re.compile(r"(^|[\s(`'\"])--[a-z{]")


def spoken(path: Path) -> Iterator[str]:
    """Every text of a module but its docstrings."""
    module = tree(path)
    alone = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(module) if isinstance(node, ast.Constant))
    return (node.value for node in texts if isinstance(node.value, str) and id(node) not in alone)


def test_the_library_does_not_speak_of_options_of_the_command_line() -> None:
    for path in sources(without=SPEAK_OF_OPTIONS):
        found = [text for text in spoken(path) if OPTION.search(text)]
        assert found == [] or name_of(path) in STARTS_A_COMMAND, name_of(path)


def test_options_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""--doc"""\nx = f"Give {y} or --limit."\nz = "a--b"\n', encoding="utf-8")
    assert [text for text in spoken(path) if OPTION.search(text)] == [" or --limit."]


def test_imports_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    lines = "import pickle\ndef work():\n    from archer import model\n    import archer.decoders.saber\n"
    path.write_text(lines, encoding="utf-8")
    assert home(PACKAGE / "cli" / "generate.py", 2) == "archer"
    assert list(imported(path)) == ["pickle", "archer.model", "archer.decoders.saber"]
    assert trespasses(path, ("archer.decoders",)) == ["archer.model"]


def run(code: str) -> str:
    """In a fresh interpreter, with this package on its path."""
    command = [
        sys.executable,
        "-P",
        "-c",
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})",
    ]
    command[-1] += f"\n{code}"
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_does_no_work() -> None:
    heavy = "{'torch', 'numpy', 'transformers', 'tokenizers', 'pydantic'}"
    assert run(f"import archer; print(sorted({heavy} & set(sys.modules)))") == "[]"


@pytest.mark.parametrize("module", ["archer", "archer.model"])
def test_decoding_loads_nothing_that_judges_studies_or_measures(module: str) -> None:
    """Nor trains, draws reports, or is the command line."""
    apart = ROOMS[ROOMS.index("model") + 1 :]
    loaded = run(
        f"import {module}\n"
        "names = {name.split('.')[1] for name in sys.modules if name.startswith('archer.')}\n"
        f"print(sorted(names & set({apart!r})))"
    )
    assert loaded == "[]"


def test_every_public_name_can_be_reached() -> None:
    assert (
        run("import archer; print([n for n in archer.__all__ if not getattr(archer, n)])") == "[]"
    )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        archer.nothing  # noqa: B018


def test_a_class_name_has_one_owner() -> None:
    """So that a name found by a search is the thing that was meant."""
    owners: dict[str, list[str]] = {}
    for path in sources():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(name_of(path))
    assert len(owners) > 300
    assert {name: homes for name, homes in owners.items() if len(homes) > 1} == {}
