"""A suffix automaton with counts: all substrings of some texts up to a depth, and how often each occurs.

Strings that end at the same places are one state (Blumer et al. 1985, "The smallest automaton recognizing the
subwords of a text", Theor. Comput. Sci. 40): they occur equally often and go on alike. Those of a state are the
suffixes of its longest, down to one token more than its `link` has, where the shorter ones are. So the suffixes
of a text, with their counts, are the states on one chain of links, and a token costs a step along that chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Node:
    """Strings that end at the same places: the longest's length, their count, and where they go on.

    token   the last one of each of its strings
    link    the state of the suffixes that are shorter than its strings; None for the empty string
    head    the state that its strings most often go on to; of two, the one that got there first
    others  all states that they go on to, by token; empty where `head` is the only one
    """

    __slots__ = ("count", "head", "length", "link", "others", "token")

    def __init__(self, token: int, length: int, link: Node | None) -> None:
        self.token, self.length, self.link = token, length, link
        self.count = 0
        self.head: Node | None = None
        self.others = NONE

    def child(self, token: int) -> Node | None:
        """The state that its strings go on to with the token."""
        if self.head is not None and self.head.token == token:
            return self.head
        return self.others.get(token)

    def adopt(self, child: Node) -> None:
        """Go on to this state: a new one, which has no count yet, or one of the same token and count as that before."""
        if self.head is None or self.head.token == child.token:
            self.head = child
        elif not self.others:
            self.others = {self.head.token: self.head}
        if self.others:
            self.others[child.token] = child


NONE: dict[int, Node] = {}  # shared by all states with one child or none, never written to
Suffix = tuple[Node, int, int]  # a state, and the lengths of the shortest and the longest suffix in it


class Automaton:
    """All substrings of some texts, up to `depth` tokens long, with their counts."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._root = self._end = Node(0, 0, None)  # the empty string, whose token nobody asks for

    def begin(self, start: int) -> None:
        """A further text, to be read from `start` on."""
        self._read = start
        self._end = self._root

    def read(self, items: list[int], stop: int) -> None:
        """Read the current text up to `stop`."""
        for place in range(self._read, stop):
            self._append(items[place])
        self._read = stop

    def suffixes(self) -> Iterator[Suffix]:
        """The current text's suffixes, longest first."""
        return _chain(self._end, self._end.length)

    def suffixes_of(self, text: Sequence[int]) -> Iterator[Suffix]:
        """Those of a text of at most `depth` tokens that occur, longest first."""
        node, length = self._root, 0
        for token in text:
            while (child := node.child(token)) is None and node.link is not None:
                node = node.link
                length = node.length
            if child is not None:
                node, length = child, length + 1
        return _chain(node, length)

    def _append(self, token: int) -> None:
        node = self._end
        length = min(node.length, self._depth - 1)  # of the longest suffix with room for one more token
        if node.link is not None and node.link.length == length:
            node = node.link
        self._end = self._reach(node, token, length + 1)
        # Every suffix, with the token, has occurred once more.
        at: Node | None = node
        counted = None
        while at is not None:
            head = at.head
            assert head is not None
            child = head if head.token == token else at.others[token]
            if child is not counted:
                child.count += 1
                counted = child
            if child is not head and child.count > head.count:
                at.head = child
            at = at.link

    def _reach(self, node: Node, token: int, length: int) -> Node:
        """The state of a string of this length: the longest suffix, which is in `node`, and the token."""
        if (child := node.child(token)) is not None:
            return child if child.length == length else self._part(node, child, length)
        new = Node(token, length, self._root)
        at: Node | None = node
        while at is not None:
            if (child := at.child(token)) is not None:
                length = at.length + 1
                new.link = child if child.length == length else self._part(at, child, length)
                break
            at.adopt(new)
            at = at.link
        return new

    def _part(self, node: Node, child: Node, length: int) -> Node:
        """Part the strings of at most this length, which are about to occur once more, from the longer ones."""
        part = Node(child.token, length, child.link)
        part.count, part.head = child.count, child.head
        part.others = child.others and child.others.copy()
        child.link = part
        at: Node | None = node
        while at is not None and at.child(child.token) is child:
            at.adopt(part)
            at = at.link
        return part


def _chain(node: Node, length: int) -> Iterator[Suffix]:
    while node.link is not None:
        yield node, node.link.length + 1, length
        node = node.link
        length = node.length
