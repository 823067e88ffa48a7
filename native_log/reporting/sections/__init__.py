"""The sections of a report: figures to tables and charts. These functions are pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.reporting.sections.codecs import codec_section
from native_log.reporting.sections.compaction import compaction_section
from native_log.reporting.sections.directories import directory_section
from native_log.reporting.sections.extent import extent_section
from native_log.reporting.sections.groups import group_section
from native_log.reporting.sections.partitions import partition_section
from native_log.reporting.sections.retention import retention_section
from native_log.reporting.sections.times import time_section
from native_log.reporting.sections.topics import topic_section
from native_log.reporting.sections.transactions import transaction_section
from native_log.reporting.sections.verification import verification_section

if TYPE_CHECKING:
    from native_log.reporting.figures import ReportFigures
    from native_log.reporting.layout import Section


def sections(figures: ReportFigures) -> tuple[Section, ...]:
    """Return the sections in the order of the page."""
    return (
        topic_section(figures),
        partition_section(figures),
        time_section(figures),
        codec_section(figures),
        compaction_section(figures),
        retention_section(figures),
        transaction_section(figures),
        group_section(figures),
        verification_section(figures),
        directory_section(figures),
        extent_section(figures),
    )
