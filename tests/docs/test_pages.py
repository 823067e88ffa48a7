"""The code of the documentation runs, and prints what the pages show."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from markdown_blocks import PAGES, ROOT, Page, blocks

import kafkalog_spark
import native_log
import native_log.producer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", PAGES)
def test_blocks_that_need_no_spark(page: str, tmp_path: Path) -> None:
    if page == "docs/report.md":
        pytest.importorskip("jinja2")
        pytest.importorskip("matplotlib")
    runner = Page(tmp_path)
    for block in blocks(page):
        if block.is_code and block.reason is None and not block.needs_spark:
            runner.run(block)


@pytest.mark.parametrize("page", PAGES)
def test_output_belongs_to_a_block_that_runs(page: str) -> None:
    assert [str(block) for block in blocks(page) if block.output is not None and block.reason] == []


def test_blocks_are_found(tmp_path: Path) -> None:
    lines = ["```python", "print(2)", "```", "", "```text", "2", "```", "- x", ""]
    lines += ["  <!-- not run: no -->", "  ```sh", "  cd /", "  ```"]
    (tmp_path / "page.md").write_text("\n".join(lines))
    printing, marked = blocks(str(tmp_path / "page.md"))
    assert (printing.line, printing.code, printing.output, printing.reason) == (
        2,
        "print(2)\n",
        "2\n",
        None,
    )
    assert (marked.line, marked.code, marked.output, marked.reason) == (12, "cd /\n", None, "no")


def test_an_output_that_differs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    (block,) = blocks(str(tmp_path / "page.md"))
    with pytest.raises(AssertionError, match="but the page shows"):
        Page(tmp_path / "run").run(block)


@pytest.mark.parametrize(
    "command", ["rm -rf x", "kafkalog ls x | sort", "kafkalog ls examples/none", "make none"]
)
def test_a_command_that_cannot_run_is_an_error(command: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"```sh\n{command}\n```\n")
    (block,) = blocks(str(tmp_path / "page.md"))
    with pytest.raises(AssertionError, match=r"page\.md:2"):
        Page(tmp_path / "run").run(block)


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)[^):\s]*\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_paths_in_the_repository_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(
        r"`((?:native_log|kafkalog_spark|tests|kernel|benchmarks|docs|conf)/[\w/]+(?:\.\w+)?)`", text
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_reference_has_all_public_names() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").iterdir())
    names = {f"native_log.{name}" for name in native_log.__all__ if name != "__version__"}
    names |= {f"native_log.producer.{name}" for name in native_log.producer.__all__}
    names |= {f"kafkalog_spark.{name}" for name in kafkalog_spark.__all__}
    assert set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE)) == names


@pytest.mark.parametrize("path", ["tables.py", "__pycache__/tables.cpython-311.pyc"])
def test_the_site_has_no_modules(path: str) -> None:
    config = pytest.importorskip("mkdocs.config", reason="make docs installs mkdocs")
    assert config.load_config(str(ROOT / "mkdocs.yml")).exclude_docs.match_file(path)


def test_the_first_page_names_all_pages_and_extras() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)", text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(project["optional-dependencies"])


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
