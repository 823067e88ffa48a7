"""Call interceptors in order, and keep their exceptions from the sender (Kafka: ProducerInterceptors)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from native_log.config import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from native_log.producer.futures import RecordMetadata
    from native_log.producer.record import ProducerRecord

logger = logging.getLogger(__name__)

_METHODS = ("on_send", "on_acknowledgement", "close")


class Interceptors:
    """A chain of interceptors.

    An interceptor is an object with any of these methods; a class is called without arguments:

    - `on_send(record: ProducerRecord) -> ProducerRecord`: called before a record is serialized. It may return
      another record. The next interceptor gets what this one returns.
    - `on_acknowledgement(metadata: RecordMetadata, exception: Exception | None)`: called when a record was
      written or failed, before the callbacks of the record.
    - `close()`: called when the producer is closed.

    An exception of an interceptor is logged. The chain then continues with the last valid record.

    Raises InvalidConfigError for an object without these methods, such as the name of a Java class.
    """

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = [each() if isinstance(each, type) else each for each in interceptors]
        for each in self._interceptors:
            if not any(hasattr(each, method) for method in _METHODS):
                raise InvalidConfigError(
                    "interceptor.classes: expected Python classes or objects with on_send or "
                    f"on_acknowledgement, found {each!r}"
                )

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record as changed by all interceptors."""
        for interceptor in self._interceptors:
            on_send = getattr(interceptor, "on_send", None)
            if on_send is None:
                continue
            try:
                record = on_send(record)
            except Exception:
                logger.exception(
                    "an exception was raised by on_send of %r for topic %s", interceptor, record.topic
                )
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        """Report a record to all interceptors."""
        for interceptor in self._interceptors:
            method = getattr(interceptor, "on_acknowledgement", None)
            if method is None:
                continue
            try:
                method(metadata, exception)
            except Exception:
                logger.exception("an exception was raised by on_acknowledgement of %r", interceptor)

    def close(self) -> None:
        """Close all interceptors."""
        for interceptor in self._interceptors:
            close = getattr(interceptor, "close", None)
            if close is None:
                continue
            try:
                close()
            except Exception:
                logger.exception("an exception was raised by close of %r", interceptor)
