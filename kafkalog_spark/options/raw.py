"""Options as Spark passes them, and the parsing of single values."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeVar

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.names import misspelled_names
from native_log.java_numbers import parse_int

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_UNIT_SHIFTS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}

Choice = TypeVar("Choice", bound=str)


class RawOptions:
    """Options as text, by name. The case of names does not matter.

    The methods that parse a value raise OptionError if it is invalid.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.values = {name.lower(): value for name, value in options.items()}

    def get(self, name: str) -> str | None:
        return self.values.get(name.lower())

    @property
    def has_path(self) -> bool:
        """Whether a log directory is given."""
        return any(self.get(name) is not None for name in ("path", "paths", "location"))

    def check_spelling(self, more_names: Collection[str] = ()) -> None:
        """Raise OptionError for a misspelled name. Names that resemble no option are ignored.

        Args:
            more_names: names that are valid in addition to those of read options.
        """
        # A catalog table repeats its options as option.<name>.
        names = (name for name in self.values if not name.startswith("option."))
        for name, correct in misspelled_names(names, more_names).items():
            raise OptionError(f"unknown option {name!r}: did you mean {correct}?")

    def paths(self) -> tuple[str, ...]:
        """Return the log directories: the first of `path`, `paths` (a JSON list) and `location`."""
        path, paths = self.get("path"), self.get("paths")
        if path is not None:
            parsed = [path]
        elif paths is not None:
            try:
                parsed = json.loads(paths)
            except ValueError:
                parsed = None
            if not (isinstance(parsed, list) and all(isinstance(p, str) for p in parsed)):
                raise OptionError(f'paths: expected a JSON list such as ["/disk1/kafka-logs"], found {paths}')
        else:
            location = self.get("location")
            parsed = [] if location is None else [location]
        if not parsed or not all(p.strip() for p in parsed):
            raise OptionError(
                "no path is given; expected a Kafka log directory or a partition directory, "
                'as in load("/var/kafka-logs")'
            )
        return tuple(parsed)

    def boolean(self, name: str, default: bool, *, trim: bool = False) -> bool:
        value = self.get(name)
        if value is None:
            return default
        word = (value.strip() if trim else value).lower()
        if word not in ("true", "false"):
            raise OptionError(f"{name}: expected true or false, found {value!r}")
        return word == "true"

    def positive(self, name: str, bits: int) -> int | None:
        """Return an integer of at least 1; None if the option is not set."""
        value = self.get(name)
        if value is None:
            return None
        number = self._integer(name, value, bits)
        if number <= 0:
            raise OptionError(f"{name}: expected a number of at least 1, found {value}")
        return number

    def long(self, name: str) -> int | None:
        """Return an integer of 64 bits; None if the option is not set."""
        value = self.get(name)
        return None if value is None else self._integer(name, value, 64)

    def _integer(self, name: str, value: str, bits: int) -> int:
        try:
            return parse_int(value, bits)
        except ValueError:
            raise OptionError(f"{name}: expected an integer of {bits} bits, found {value!r}") from None

    def size_bytes(self, name: str, default: int) -> int:
        """Return a size in bytes. Units are powers of 1024 and may be written as in 512k, 128MB or 2 GiB."""
        value = self.get(name)
        if value is None:
            return default
        match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
        if not match or match[2].replace("ib", "b") not in _UNIT_SHIFTS or int(match[1]) == 0:
            raise OptionError(f"{name}: expected a size such as 134217728, 512k, 128m or 2g, found {value!r}")
        return int(match[1]) << _UNIT_SHIFTS[match[2].replace("ib", "b")]

    def choice(self, name: str, *choices: Choice) -> Choice:
        """Return one of the choices, which may be written in any case; the first if the option is not set."""
        value = self.get(name)
        for choice in choices:
            if value is None or choice.lower() == value.lower():
                return choice
        raise OptionError(f"{name}: expected {', '.join(choices[:-1])} or {choices[-1]}, found {value!r}")

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a comma-separated list of names; None if the option is not set."""
        value = self.get(name)
        if value is None:
            return None
        names = tuple(item.strip() for item in value.split(","))
        if "" in names:
            raise OptionError(f"{name}: expected a list such as offset,timestamp,value, found {value!r}")
        return names
