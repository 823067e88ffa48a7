"""Check the values of JSON files that kafkalog keeps in log directories.

Such a file may come from elsewhere, and what it names is read, renamed or removed. So each value is checked
where the file is parsed.
"""

from __future__ import annotations

import re

MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def integer(value: object, least: int = 0, greatest: int = MAX_LONG) -> int:
    """Return an integer from `least` to `greatest`, both inclusive. Raises ValueError for anything else."""
    if type(value) is not int or not least <= value <= greatest:
        raise ValueError(f"expected an integer from {least} to {greatest}, found {value!r:.80}")
    return value


def text(value: object) -> str:
    """Return a string. Raises ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"expected a string, found {value!r:.80}")
    return value


def identifier(value: object) -> str:
    """Return an id that may be a part of a file name. Raises ValueError for anything else."""
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise ValueError(f"expected an id of 1 to 128 letters, digits, '.', '_' and '-', found {value!r:.80}")
    return value
