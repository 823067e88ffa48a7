"""Account for every offset of a log: it was copied, it is lost, or compaction may have removed its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.log.gaps import UNEXPLAINED, GapCount, offset_gaps
from native_log.log.offset_span import OffsetSpan
from native_log.policies import Gaps
from native_log.salvaging.report import Finding
from native_log.segment.files import LOG, file_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from native_log.segment.damage import DamagedRange


class OffsetAccount:
    """The account of one log. Batches, damaged ranges and segments are reported to it in order.

    Attributes:
        findings: what is lost.
        first_offset: the first offset that was copied; None if there is none, or if it is unknown.
        next_offset: the offset after the last batch that was copied; None if there is none.
        accounted: the offset up to which (exclusive) every offset is accounted for.
    """

    def __init__(self, directory: Path, gaps: Gaps, missing: Mapping[int, str], start_offset: int) -> None:
        """Begin an account.

        Args:
            directory: the partition directory.
            gaps: whether compaction explains gaps.
            missing: the base offsets of segments whose records are missing, sorted, and what shows that they
                existed.
            start_offset: the first offset that the log should have.
        """
        self.findings: list[Finding] = []
        self.first_offset: int | None = None
        self.next_offset: int | None = None
        self.accounted = start_offset
        self._directory = directory
        self._gaps = gaps
        self._missing = missing
        self._open_end: int | None = None  # the index of a finding that extends to the end of the log
        self._doubtful = GapCount()

    def copy(self, base_offsets: Sequence[int | None], last_offsets: Sequence[int]) -> None:
        """Note that batches with these first and last offsets, at least one, were copied.

        The header of a compressed batch of magic 0 or 1 has no first offset.
        """
        first = base_offsets[0]
        if self.next_offset is None:
            self.first_offset = first
        if first is not None:
            self.fill(first)
        for gap, _ in offset_gaps(base_offsets, last_offsets, first or 0):
            self.accounted = gap.start_offset
            self.fill(gap.end_offset)
        self.next_offset = last_offsets[-1] + 1
        self.accounted = max(self.accounted, self.next_offset)

    def lose(self, damaged: DamagedRange, end_offset: int | None) -> None:
        """Note that a range of bytes is lost.

        Args:
            damaged: the range.
            end_offset: the base offset of the next segment; None: there is none.
        """
        if damaged.offset is not None:
            self.fill(damaged.offset)
        size = damaged.end_position - damaged.position
        following = end_offset if damaged.next_offset is None else damaged.next_offset
        finding = Finding("lost", damaged.kind, damaged.path, damaged.position, size, reason=damaged.reason)
        self._lose_offsets(finding, following)

    def lose_file(
        self, path: str, size_bytes: int, base_offset: int, end_offset: int | None, why: str
    ) -> None:
        """Note that a whole .log file is lost. `end_offset` is that of `lose`."""
        self.fill(base_offset)
        self._lose_offsets(Finding("lost", "unreadable", path, 0, size_bytes, reason=why), end_offset)

    def fill(self, offset: int) -> None:
        """Account for the offsets up to `offset` (exclusive), which no file has."""
        first = self.accounted
        if offset <= first:
            return
        self.accounted = offset
        missing = [base for base in self._missing if first <= base < offset]
        if missing:
            self.findings.append(self._missing_segment(missing[0], first, offset - 1))
        elif self._gaps is Gaps.UNEXPLAINED:
            reason = f"no file has records of these offsets. {UNEXPLAINED}"
            self.findings.append(
                Finding(
                    "lost",
                    "missing",
                    str(self._directory),
                    reason=reason,
                    first_offset=first,
                    last_offset=offset - 1,
                )
            )
        elif self._gaps is Gaps.UNKNOWN:
            self._doubtful.add(OffsetSpan(first, offset))

    def finish(self, log_end_offset: int, reached: int, evidence: str) -> None:
        """Account for the offsets after the end of the log.

        Args:
            log_end_offset: where the log ends now, exclusive.
            reached: the offset that the log has certainly reached once, exclusive; 0 if nothing is known.
            evidence: what shows that, in words.
        """
        last = reached - 1 if reached > log_end_offset else None
        missing = [base for base in self._missing if base >= self.accounted]
        if self._open_end is not None:
            finding = self.findings[self._open_end]
            if last is not None and last >= (finding.first_offset or 0):
                reason = f"{finding.reason}. The log had reached offset {reached} ({evidence})"
                self.findings[self._open_end] = finding._replace(last_offset=last, reason=reason)
        elif missing:
            self.findings.append(self._missing_segment(missing[0], self.accounted, last))
        elif last is not None:
            reason = f"the log ends at offset {log_end_offset}, but it had reached {reached} ({evidence})"
            self.findings.append(
                Finding(
                    "lost",
                    "missing-end",
                    str(self._directory),
                    reason=reason,
                    first_offset=log_end_offset,
                    last_offset=last,
                )
            )
        if self._doubtful.first is not None:
            self.findings.append(
                Finding(
                    "gap",
                    None,
                    str(self._directory),
                    reason=self._doubtful.doubt,
                    first_offset=self._doubtful.first.start_offset,
                    last_offset=self._doubtful.last_offset,
                )
            )

    def _lose_offsets(self, finding: Finding, following: int | None) -> None:
        first = self.accounted
        if following is None:
            self._open_end = len(self.findings)
            finding = finding._replace(first_offset=first)
        elif following <= first:
            finding = finding._replace(reason=f"{finding.reason}. No offset is missing")
        else:
            finding = finding._replace(first_offset=first, last_offset=following - 1)
            self.accounted = following
        self.findings.append(finding)

    def _missing_segment(self, base_offset: int, first: int, last: int | None) -> Finding:
        return Finding(
            "lost",
            "missing-segment",
            str(self._directory / file_name(base_offset, LOG)),
            reason=self._missing[base_offset],
            first_offset=first,
            last_offset=last,
        )
