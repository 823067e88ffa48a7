"""Have something called before or after the next call of a function, as a broker changes files meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Changes = list[Callable[[], object]]


def before_next_call(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Callable[[], object]
) -> Changes:
    """Have `change` called once, before the next call of the function `name` of a class or module.

    Return a list, which is empty once that was done.
    """
    function, changes = getattr(owner, name), [change]

    def change_and_call(*arguments: Any, **options: Any) -> Any:
        while changes:
            changes.pop()()
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, change_and_call)
    return changes


def after_next_call(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Callable[[], object]
) -> Changes:
    """Do the same after the next call."""
    function, changes = getattr(owner, name), [change]

    def call_and_change(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        while changes:
            changes.pop()()
        return result

    monkeypatch.setattr(owner, name, call_and_change)
    return changes
