"""Every Python example of the README and the docs runs, and every link leads somewhere."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def program(page: Path) -> str:
    """The Python blocks of a page, which build on each other."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))


PROGRAMS = {str(page.relative_to(ROOT)): program(page) for page in PAGES if program(page)}
FIRST_PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("client", "workers", "delays", "recipes", "migrating", "protocol")),
]
"""What a newcomer tries."""
OF_SPARK = [name for name in PROGRAMS if Path(name).name.startswith("spark")]
"""They run within the tests of Spark, in their session."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The address of a broker as a newcomer starts it, on a free port."""
    command = [sys.executable, "-m", "goqueue", "serve", "-o", "json"]
    options = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["websocket"]
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("page", [name for name in PROGRAMS if name not in (*OF_SPARK, *FIRST_PAGES)])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, broker: str) -> None:
    run(page, tmp_path, broker)


def test_the_examples_of_the_first_pages_run_one_after_the_other_and_again(tmp_path: Path, broker: str) -> None:
    """A newcomer has one broker, tries one page after the other, and some of them twice."""
    for page in (*FIRST_PAGES, "docs/groups.md", "docs/priorities.md", "docs/schemas.md", *FIRST_PAGES):
        run(page, tmp_path, broker)


def run(page: str, folder: Path, broker: str) -> None:
    script = folder / "example.py"
    script.write_text(PROGRAMS[page].replace("ws://127.0.0.1:7710", broker))
    done = subprocess.run(
        [sys.executable, script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{page}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_index_links_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert {name for name in pages if f"]({name})" not in index} == {"index.md"}


def test_the_code_that_is_migrated_from_is_python() -> None:
    """It needs other libraries and their servers, so it is only parsed."""
    blocks = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs/migrating.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        ast.parse(block)


def test_the_guarantees_page_names_tests_that_exist() -> None:
    for path in re.findall(r"`((?:tests|goqueue)/[\w/.]+)`", (ROOT / "docs/guarantees.md").read_text()):
        assert (ROOT / path).exists(), path


# The walks of the architecture page


def walks() -> dict[str, list[str]]:
    """The files that each walk names, by its title. A name without a folder is in the folder named last."""
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.split("\n## Four walks\n")[1].split("\n## ")[0]
    titled = [walk.split("\n", 1) for walk in section.split("\n### ")[1:]]
    return {title: list(files_named_in(text)) for title, text in titled}


def files_named_in(text: str) -> Iterator[str]:
    folder = ""
    for name in re.findall(r"`([a-z]+(?:/[a-z]+)*)`", text):
        if "/" in name:
            folder = name.rpartition("/")[0]
        is_beside = "/" not in name and not (ROOT / f"goqueue/{name}.py").exists()
        yield f"{folder}/{name}" if is_beside else name


@pytest.mark.parametrize(("title", "files"), walks().items(), ids=walks())
def test_a_walk_names_files_that_exist(title: str, files: list[str]) -> None:
    assert files, title
    assert [file for file in files if not (ROOT / f"goqueue/{file}.py").exists()] == []


def test_the_walk_of_a_delivery_names_each_file_once() -> None:
    files = walks()["A delivery and its ack"]
    assert [file for file in files if files.count(file) > 1] == []
