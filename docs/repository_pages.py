"""A hook of MkDocs: add pages that lie elsewhere in the repository, and adapt relative links.

The pages of the documentation link to files as they lie in the repository, so that the links work there, too.
In the site a link to one of PAGES leads to that page; a link to any other file that the site does not have
becomes plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/RESULTS.md": "results.md",
    "examples/README.md": "examples.md",
}
"""Pages of the site by their paths in the repository."""
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    source = Path(str(page.file.abs_src_path)).relative_to(ROOT)

    def adapt(link: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / link["path"])
        in_site = PAGES.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(in_site) is None:
            return link["text"]
        relative = os.path.relpath(in_site, Path(page.file.src_uri).parent)
        return f"[{link['text']}]({relative}{link['anchor'] or ''})"

    return _LINK.sub(adapt, markdown)
