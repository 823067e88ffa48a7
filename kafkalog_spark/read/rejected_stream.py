"""What a stream with invalid options is read with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    from kafkalog_spark.errors import OptionError


class RejectedStreamReader(DataSourceStreamReader):
    """Raises the error in the first call, whichever it is.

    If `DataSource.streamReader` itself raised it, Spark would try to stop the reader that does not exist: its
    UnboundLocalError would be the last line of what the user sees.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802
        raise self._error

    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:  # noqa: ARG002, N802
        raise self._error

    def partitions(self, start: object, end: object) -> NoReturn:  # noqa: ARG002
        raise self._error

    def read(self, partition: object) -> NoReturn:  # noqa: ARG002
        raise self._error
