"""The error of a filter that cannot be used."""

from __future__ import annotations


class FilterError(ValueError):
    """A filter is invalid, or says what a filter cannot express. The message says what to do."""
