"""Folders of an object store that are listed together have the same content as if each is listed alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from native_log.storage.remote.buckets import RemoteFile
from native_log.storage.remote.list_ahead import GROUP, divide, groups, key_order

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = st.sampled_from(["t-0", "t-1", "t-10", "t-1-0", "t-1.x-delete", "t", "u-0", "u-1", "u-2", "é-1"])
FILES = st.sampled_from(["0.log", "0.index", "z", "!", "sub/0.log", "sub/deep/x", "other/y"])
FILE = RemoteFile(1, "v", 0)


def content(keys: set[str], folder: str) -> tuple[dict[str, RemoteFile], set[str]]:
    inside = [key.removeprefix(f"{folder}/") for key in keys if key.startswith(f"{folder}/")]
    files = {name: FILE for name in inside if "/" not in name and name}
    return files, {name.partition("/")[0] for name in inside if "/" in name}


@given(st.sets(NAMES), st.sets(NAMES))
def test_groups_have_each_folder_once_and_no_other_between_adjacent_ones(
    chosen: set[str], existing: set[str]
) -> None:
    found = list(groups(chosen, existing))
    assert sorted(name for names, _ in found for name in names) == sorted(chosen)
    for names, together in found:
        keys = list(map(key_order, names))
        assert len(names) <= GROUP
        if together:
            assert keys == sorted(keys)
            others = map(key_order, existing - set(names))
            assert not any(keys[0] < other < keys[-1] for other in others)


@given(
    st.sets(st.tuples(NAMES, FILES).map("/".join)),
    st.sets(NAMES, min_size=1),
    st.sets(NAMES.map("{}.txt".format)),
)
def test_a_list_from_the_first_folder_on_is_divided(
    keys: set[str], chosen: set[str], root_files: set[str]
) -> None:
    for names, together in groups(chosen, {key.partition("/")[0] for key in keys}):
        if not together:
            continue
        start = key_order(names[0])
        listed = sorted((key for key in keys | root_files if key.encode() > start), key=str.encode)
        found = divide(names, ((key, FILE) for key in listed))
        assert found == {name: content(keys, name) for name in names if any(content(keys, name))}


def test_a_list_that_begins_too_early_is_not_read_to_its_end() -> None:
    """Some servers ignore the key from which on a list is asked for."""

    def listed() -> Iterator[tuple[str, RemoteFile]]:
        yield "a-0/0.log", FILE
        raise AssertionError

    assert divide(["t-0", "t-1"], listed()) == {}


@given(st.permutations(["t-0/a", "t-0/b", "t-1/a", "t-2/a", "t-2/b"]))
def test_keys_that_are_not_in_order_are_never_taken_for_whole_folders(keys: list[str]) -> None:
    found = divide(["t-0", "t-1", "t-2"], ((key, FILE) for key in [*keys, "u-0/a"]))
    for name, listed in found.items():
        assert listed == content(set(keys), name)
