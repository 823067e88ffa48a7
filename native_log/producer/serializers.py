"""Convert keys and values to bytes (Kafka: Serializer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.config import InvalidConfigError
from native_log.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable


class Serializer:
    """A serializer: bytes, buffers and None are kept, and str becomes UTF-8, unless another one is set.

    Args:
        setting: None, a function of the key or value, or an object or class with a method
            `serialize(topic, value)` and optionally `close()`.
        name: key or value, for error messages.

    Attributes:
        is_custom: whether a serializer is set.

    Raises InvalidConfigError.
    """

    def __init__(self, setting: Any, name: str) -> None:
        self._name = name
        self.is_custom = setting is not None
        if isinstance(setting, type):
            setting = setting()
        self._owner = setting
        self._call: Callable[[str, Any], Any] | None = None
        if hasattr(setting, "serialize"):
            self._call = setting.serialize
        elif callable(setting):
            self._call = lambda _, value: setting(value)
        elif setting is not None:
            raise InvalidConfigError(
                f"{name}.serializer: expected a function, or an object with a method serialize, found "
                f"{setting!r}"
            )

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a key or value. Raises SerializationError."""
        if self._call is not None:
            try:
                value = self._call(topic, value)
            except Exception as error:
                raise SerializationError(
                    f"{self._name}.serializer: expected bytes for {value!r:.80}, found the exception "
                    f"{error!r}"
                ) from error
            if value is not None and not isinstance(value, bytes | bytearray | memoryview):
                raise SerializationError(
                    f"expected {self._name}.serializer to return bytes or None, found {type(value).__name__}"
                )
        return value if value is None or type(value) is bytes else to_bytes(value, self._name)

    def close(self) -> None:
        """Close the serializer, if it has such a method."""
        close = getattr(self._owner, "close", None)
        if callable(close) and not isinstance(self._owner, type):
            close()


def to_bytes(value: Any, name: str) -> bytes:
    """Return bytes, a buffer or a str (as UTF-8) as bytes.

    Args:
        value: a key or value that is not None.
        name: key or value, for error messages.

    Raises SerializationError.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationError(
        f"expected a {name} of bytes, str or None, found {type(value).__name__}; set {name}.serializer for "
        "other types"
    )
