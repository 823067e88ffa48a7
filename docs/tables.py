"""Render the tables of options, settings and columns in the pages of this directory.

A page marks a table with `<!-- table: NAME -->` and `<!-- end -->`. `python docs/tables.py` replaces what is
between the two; a test checks that the pages are up to date.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_spark.options.names import (
    BROKER_OPTIONS,
    KAFKA_SOURCE_OPTIONS,
    KAFKALOG_OPTIONS,
    STREAM_OPTIONS,
)
from kafkalog_spark.options.producer import EFFECTIVE_OPTIONS, PRODUCER_OPTIONS, REJECTED_OPTIONS
from kafkalog_spark.options.read import UNSUPPORTED
from kafkalog_spark.options.write import SINK_OPTIONS
from kafkalog_spark.schema import RECORDS, ddl
from kafkalog_spark.views import VIEWS
from kafkalog_spark.views.internal import INTERNAL_VIEWS
from native_log import config as settings
from native_log.codecs import CODECS
from native_log.producer.settings import BROKER_SETTINGS, SETTINGS, ProducerConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from kafkalog_spark.options.names import Option

DOCS = Path(__file__).parent
_TABLE = re.compile(r"(<!-- table: (?P<name>[a-z_-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def render(markdown: str) -> str:
    """Return the page with current tables."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{TABLES[match['name']]()}\n{match[4]}", markdown)


def _table(header: str, rows: Iterable[str]) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|" + "---|" * columns, *rows]) + "\n"


def _options(options: Mapping[str, Option]) -> str:
    return _table(
        "| Option | Default | Meaning |",
        (
            f"| `{name}` | {f'`{option.default}`' if option.default else ''} | {option.meaning} |"
            for name, option in options.items()
        ),
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "\n"


def _unsupported_read_options() -> str:
    return _table(
        "| Option | Instead |", (f"| `{name}` | {reason} |" for name, reason in UNSUPPORTED.items())
    )


def _ignored_producer_options() -> str:
    return _names(name for name in PRODUCER_OPTIONS if name not in {*EFFECTIVE_OPTIONS, *REJECTED_OPTIONS})


def _settings() -> str:
    meanings = _attribute_docstrings(settings.LogConfig)
    rows = []
    for field in dataclasses.fields(settings.LogConfig):
        topic_name = field.name.replace("_", ".")
        other_names = [name for name in settings.names_of(field.name) if name != topic_name]
        names = "<br>".join(f"`{name}`" for name in (topic_name, *other_names))
        default = "" if field.default is None else f"`{_setting_text(field.default)}`"
        rows.append(f"| {names} | {default} | {meanings[field.name]} |")
    return _table("| Setting | Default | Meaning |", rows)


def _producer_settings() -> str:
    meanings = _attribute_docstrings(ProducerConfig)
    meanings |= {f"compression_{name}_level": f"The level of {name}." for name in CODECS}
    rows = []
    for name, setting in (SETTINGS | BROKER_SETTINGS).items():
        default = "" if setting.default in (None, "", ()) else f"`{_setting_text(setting.default)}`"
        rows.append(f"| `{name}` | {default} | {meanings[name.replace('.', '_')]} |")
    return _table("| Setting | Default | Meaning |", rows)


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)


def _attribute_docstrings(owner: type) -> dict[str, str]:
    """Return the string below each attribute of a class."""
    (definition,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(definition, ast.ClassDef)
    docstrings = {}
    for attribute, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(attribute, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(attribute.target, ast.Name) and isinstance(below.value, ast.Constant)
            docstrings[attribute.target.id] = " ".join(str(below.value.value).split())
    return docstrings


def _columns(schema: pa.Schema) -> str:
    names = (field.name for field in schema)
    types = (ddl(schema.empty_table().select([field.name]).schema).split(" ", 1)[1] for field in schema)
    return _table(
        "| Column | Type |", (f"| `{name}` | `{kind}` |" for name, kind in zip(names, types, strict=True))
    )


TABLES: dict[str, Callable[[], str]] = {
    "kafka-source-options": lambda: _options(KAFKA_SOURCE_OPTIONS),
    "ignored-read-options": lambda: _names((*BROKER_OPTIONS, "kafka.*")),
    "unsupported-read-options": _unsupported_read_options,
    "kafkalog-options": lambda: _options(KAFKALOG_OPTIONS),
    "stream-options": lambda: _options(STREAM_OPTIONS),
    "sink-options": lambda: _options(SINK_OPTIONS),
    "producer-options": lambda: _options(EFFECTIVE_OPTIONS),
    "ignored-producer-options": _ignored_producer_options,
    "rejected-producer-options": lambda: _names(REJECTED_OPTIONS),
    "producer-settings": _producer_settings,
    "settings": _settings,
    "columns": lambda: _columns(RECORDS),
    **{
        f"view-{name}": (lambda view=view: _columns(view.schema))
        for name, view in {**VIEWS, **INTERNAL_VIEWS}.items()
    },
}


if __name__ == "__main__":
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if render(text) != text:
            page.write_text(render(text), encoding="utf-8")
