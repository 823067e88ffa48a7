"""Attributes that are computed when they are first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

R = TypeVar("R")


class lazy_property(Generic[R]):  # noqa: N801 (a decorator)
    """Make a method an attribute that is computed once for each object.

    It does what functools.cached_property does from Python 3.12 on. Before, that had one lock for all
    objects, so threads that read the files of different logs waited for each other.
    """

    def __init__(self, compute: Callable[[Any], R]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> R: ...
    def __get__(self, instance: object, owner: type) -> Self | R:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value

    def forget(self, instance: object) -> None:
        """Let the attribute be computed again when it is next needed."""
        instance.__dict__.pop(self._name, None)


class shared_property(lazy_property[R]):  # noqa: N801 (a decorator)
    """A lazy_property that only one thread computes. Others that need it meanwhile wait for the result."""

    def __init__(self, compute: Callable[[Any], R]) -> None:
        lock = threading.RLock()

        def compute_once(instance: Any) -> R:
            with lock:
                known: dict[str, R] = instance.__dict__
                if self._name not in known:
                    known[self._name] = compute(instance)
                return known[self._name]

        super().__init__(compute_once)
        self.__doc__ = compute.__doc__
