"""The compiled kernel has the functions and classes of the reference, with the same parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from native_log.records import InputOptions, RewriteOptions, compaction, reference

from .conftest import KERNEL_FUNCTIONS, needs_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = (
    "AppendedRecord",
    "BatchBuilder",
    "BatchHeaders",
    "KeyBuckets",
    "OffsetMap",
    "OpenBatches",
    "Survivors",
)


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, bool]]:
    """Name, kind and whether there is a default, of each."""
    return [
        (parameter.name, parameter.kind, parameter.default is not inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]


@needs_kernel
@pytest.mark.parametrize("name", sorted(set(reference.__all__) - set(CLASSES)))
def test_functions(name: str) -> None:
    assert parameters(getattr(KERNEL_FUNCTIONS, name)) == parameters(getattr(reference, name))


@needs_kernel
@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    ours, theirs = (getattr(module, name) for module in (KERNEL_FUNCTIONS, reference))
    protocol = getattr(compaction, name, theirs)
    assert parameters(ours) == parameters(theirs)
    methods = [method for method in vars(protocol) if not method.startswith("_")]
    assert methods
    for method in methods:
        if inspect.isdatadescriptor(vars(protocol)[method]):
            assert inspect.isdatadescriptor(getattr(ours, method)), method
            assert inspect.isdatadescriptor(getattr(theirs, method)), method
        else:
            assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method)), method
            assert parameters(getattr(theirs, method)) == parameters(getattr(protocol, method)), method


@needs_kernel
def test_survivors_of_one_implementation_do_not_fit_the_other() -> None:
    for ours, theirs in ((KERNEL_FUNCTIONS, reference), (reference, KERNEL_FUNCTIONS)):
        survivors: Any = theirs.Survivors([1])
        with pytest.raises(TypeError):
            ours.rewrite(b"", RewriteOptions(survivors, 0, 0, None))
        with pytest.raises(TypeError):
            ours.OffsetMap(1000).mark(b"", survivors, InputOptions())
