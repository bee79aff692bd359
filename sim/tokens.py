"""Token sequences whose prefixes and extensions share one list.

A decoding run looks at ever longer prefixes of one growing text. As tuples each of them costs a copy,
which makes a run quadratic. `Tokens` is as immutable as a tuple, but a prefix is a length beside a shared
list, and an extension appends to that list when it is the first to do so. An incremental reader (a drafter)
sees by identity of the list that a sequence continues the one before, and reads only what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Tokens(Sequence[int]):
    """An immutable sequence of token ids; equal to any tuple or list of the same ids.

    items   the shared list, of which only the first `length` ids belong to this sequence; never change it
    length  how many they are, as `len` says (a plain attribute, because `len` costs a call)

    >>> text = Tokens([5, 6, 7])
    >>> text[:2], text.extended([8]), text[:2].extended([9])
    (Tokens([5, 6]), Tokens([5, 6, 7, 8]), Tokens([5, 6, 9]))
    >>> text[:2].extended([7, 8]).shares(text)
    True
    """

    __slots__ = ("items", "length")

    items: list[int]
    length: int

    def __init__(self, ids: Iterable[int] = ()) -> None:
        if isinstance(ids, Tokens):
            self.items, self.length = ids.items, ids.length
        else:
            self.items = list(ids)
            self.length = len(self.items)

    def shares(self, other: Tokens) -> bool:
        """Whether both are prefixes of one list, so that the longer one continues the shorter."""
        return self.items is other.items

    def extended(self, more: Sequence[int]) -> Tokens:
        """This sequence with `more` behind it; copies only when another text continued it differently."""
        length, items = self.length, self.items
        if len(items) == length:
            items.extend(more)
        elif items[length : length + len(more)] != list(more):
            items = items[:length]
            items.extend(more)
        return _prefix(items, length + len(more))

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Tokens: ...
    def __getitem__(self, index: int | slice) -> int | Tokens:
        if isinstance(index, slice):
            start, stop, stride = index.indices(self.length)
            if stride != 1:
                return Tokens(self.items[i] for i in range(start, stop, stride))
            return Tokens(self.items[start:stop]) if start else _prefix(self.items, stop)
        if index < 0:
            index += self.length
        if not 0 <= index < self.length:
            raise IndexError(f"token {index} of {self.length}")
        return self.items[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.items[: self.length])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tokens):
            if self.length != other.length:
                return False
            return self.items is other.items or self.items[: self.length] == other.items[: self.length]
        if isinstance(other, tuple | list):
            return self.length == len(other) and self.items[: self.length] == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.items[: self.length]))

    def __repr__(self) -> str:
        return f"Tokens({self.items[: self.length]})"


def _prefix(items: list[int], length: int) -> Tokens:
    """The first `length` ids of a list that is shared, not copied."""
    new = object.__new__(Tokens)
    new.items = items
    new.length = length
    return new
