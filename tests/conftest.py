"""What all tests share: shared material, a browser, eight bits, one thread, the hypothesis profiles."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
import torch
from hypothesis import settings

from support.whole_numbers import pretend

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPOSITORY = Path(__file__).resolve().parent.parent
SLOW_SECONDS = 3600.0
"""A slow test may take an hour; it is ended then, as any other test after the `timeout` of pyproject."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is `thinned` by n, every n-th is quick and the others are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        thinned = item.get_closest_marker("thinned")
        if thinned and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if seen[test] % thinned.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


def let_everybody_through(folder: Path) -> None:
    """Other users may enter the folder and those above it; pytest makes them for its own user alone."""
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o111)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def shared(*parts: str) -> Path:
    """A path inside the shared material: env ARCHER_SHARED, else ../shared beside the repository.

    Where it is missing, the calling test is skipped; with CI=true it fails.
    """
    root = Path(os.environ.get("ARCHER_SHARED") or REPOSITORY.parent / "shared")
    path = root.joinpath(*parts)
    if path.exists():
        return path
    reason = f"{path} does not exist; set ARCHER_SHARED to the folder of the shared material"
    if in_ci():
        pytest.fail(reason)
    pytest.skip(reason)


def _missing(what: str) -> NoReturn:
    reason = f"{what} is missing; the pages cannot be looked at"
    if in_ci():
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium: Debian's, found on the path, so that nothing is downloaded.

    One for all tests of a process: Playwright leaves a running loop on the main thread until it is stopped,
    where it cannot be started again, nor can anything else that wants a loop of its own there.
    """
    if importlib.util.find_spec("playwright") is None:
        _missing("playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        _missing("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium)
        yield started
        started.close()


@pytest.fixture(scope="module")
def whole_numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """w8a8 works in this file, also where the processor is refused it."""
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch, tmp_path_factory.mktemp("processor"))
        yield


torch.set_num_threads(1)
settings.register_profile("local", deadline=None, max_examples=25)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if in_ci() else "local")
