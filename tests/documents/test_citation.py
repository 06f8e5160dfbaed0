"""How to cite it: the software under its own title, and the paper that it implements."""

from typing import Any

import yaml

import archer
from conftest import REPOSITORY


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
