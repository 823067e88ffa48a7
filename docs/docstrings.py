"""A griffe extension: let its parser of docstrings understand the forms that this project uses.

Args:
    start_offset, end_offset: several names with one description.

Raises:
    LogDirInUseError, InvalidTopicError: several names with one description.
    OSError, ValueError: ...
    UnknownTopicOrPartitionError.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from griffe import Extension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from griffe import Object

_SECTION = re.compile(r"(Args|Attributes|Raises):")
_ENTRY = re.compile(r"    (?P<names>\w+(?:(?:, |; )\w+)*)(?P<end>: .*|:|\.)")


class Docstrings(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = split_names("\n".join(_lines(obj.docstring.value)))


def _lines(docstring: str) -> Iterator[str]:
    """Yield the lines without their common indentation."""
    first, *others = docstring.expandtabs().splitlines() or [""]
    margin = min((len(line) - len(line.lstrip()) for line in others if line.strip()), default=0)
    yield first.strip()
    yield from (line[margin:].rstrip() for line in others)


def split_names(docstring: str) -> str:
    """Return the docstring with an entry of its own for each name."""
    lines: list[str] = []
    entry: list[str] = []
    names: list[str] = []
    is_section = False

    def finish() -> None:
        for name in names or [""]:
            lines.extend(line.replace("\0", name) for line in entry)
        entry.clear()
        names.clear()

    for line in docstring.split("\n"):
        match = _ENTRY.fullmatch(line) if is_section else None
        if match or not line.startswith("     "):
            finish()
        if match:
            names.extend(re.split("[,;] ", match["names"]))
            entry.append("    \0" + (":" if match["end"] == "." else match["end"]))
        else:
            entry.append(line)
        if line.strip() and not line.startswith(" "):
            is_section = _SECTION.fullmatch(line) is not None
    finish()
    return "\n".join(lines)
