"""The errors of the Spark side. What is wrong with a log itself is an error of native_log."""

from __future__ import annotations

from native_log.errors import KafkaLogError


class OptionError(ValueError):
    """An option, or options together, that cannot be meant. Spark shows it at load()."""


class DataLossError(KafkaLogError):
    """The log does not hold all offsets that were asked for (Spark: KAFKA_DATA_LOSS)."""


class PathNotVisibleError(KafkaLogError):
    """A directory that the driver sees and an executor does not."""

    @classmethod
    def seen_from(cls, host: str, path: str) -> PathNotVisibleError:
        """Of a partition's directory, and the executor's host."""
        return cls(
            f"the executor on host {host} does not see this directory: mount it there under the same path, "
            "or run where it lies",
            path=path,
        )
