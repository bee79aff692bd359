"""A suffix tree with counts: all substrings of some texts up to a depth, and how often each occurs.

A suffix that occurs once is a leaf, whose label runs to its text's end; leaves are never touched as the text
grows, so a token costs one move per suffix that has occurred before. Every other suffix ends at a node of its
own, since one more string ends there than goes on.
"""

from __future__ import annotations


class Source:
    """A text in the tree, as far as it has been read."""

    __slots__ = ("items", "length")

    def __init__(self, items: list[int], length: int) -> None:
        self.items, self.length = items, length


class Node:
    """A string's end: its count, the label of the edge to it, its children and the child most often taken.

    The label is `source.items[start : start + length]`, `token` first; that of a leaf, `length` 0, runs to
    its source's end, but not past `limit`, where the tree's depth is reached. A table of children comes with
    the second.
    """

    __slots__ = ("children", "count", "head", "length", "limit", "parent", "source", "start", "token")

    def __init__(self, source: Source, start: int, length: int, limit: int, count: int, parent: Node | None) -> None:
        self.source, self.start, self.length, self.limit = source, start, length, limit
        self.count, self.parent = count, parent
        self.token = source.items[start] if source.items else -1
        self.head: Node | None = None
        self.children: dict[int, Node] | None = None

    def size(self) -> int:
        """The length of the label."""
        return self.length or min(self.source.length, self.limit) - self.start

    def child(self, token: int) -> Node | None:
        """The child whose label starts with the token."""
        if self.children is not None:
            return self.children.get(token)
        return self.head if self.head is not None and self.head.token == token else None

    def adopt(self, child: Node) -> None:
        """Take a child, new or in place of another of the same first token."""
        if self.head is None or (self.children is None and self.head.token == child.token):
            self.head = child
            return
        if self.children is None:
            self.children = {self.head.token: self.head}
        if self.head.token == child.token or child.count > self.head.count:
            self.head = child
        self.children[child.token] = child

    def shorten(self) -> None:
        """Take the first token off the label."""
        self.start += 1
        self.length -= self.length > 0
        self.token = self.source.items[self.start]


class Tree:
    """All substrings of some texts, up to `depth` tokens long, with their counts.

    `ends[-m]` is where the current text's last m tokens end, as far as these have occurred before.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._root = Node(Source([], 0), 0, 0, 0, 0, None)
        self.ends: list[Node] = []

    def begin(self, items: list[int], start: int) -> None:
        """A further text: `items` from `start` on."""
        self._source = Source(items, start)
        self.ends.clear()

    def read(self, stop: int) -> None:
        """Read the current text up to `stop`."""
        for place in range(self._source.length, stop):
            self._append(place)

    def _append(self, place: int) -> None:
        source, ends, root = self._source, self.ends, self._root
        source.length = place + 1
        token = source.items[place]
        root.count += 1
        ends.append(root)
        if len(ends) > self._depth:
            del ends[0]
        leaves = 0
        # `child`, `shorten` and `adopt` are written out where most tokens pass: it halves the time.
        for i, node in enumerate(ends):
            children = node.children
            child = children.get(token) if children else node.head
            if child is None or child.token != token:
                # The longer suffixes, which come first, are new as soon as a shorter one is.
                start = place + 1 - (len(ends) - i)
                node.adopt(Node(source, place, 0, start + self._depth, 1, node))
                leaves += 1
            elif node.count == child.count + 1 and node is not root:
                # All others went this way from here: the node moves along the edge.
                if child.length > 1:
                    node.length += 1
                    child.length -= 1
                    child.start = start = child.start + 1
                    child.token = child.source.items[start]
                elif child.size() > 1:
                    node.length += 1
                    child.shorten()
                else:
                    ends[i] = self._fuse(node, child, place)
            elif child.length == 1:
                child.count = count = child.count + 1
                head = node.head
                if head is not child and head is not None and count > head.count:
                    node.head = child
                ends[i] = child
            else:
                ends[i] = self._enter(node, child, place)
        del ends[:leaves]

    def _fuse(self, node: Node, child: Node, place: int) -> Node:
        """The suffix reaches the only child: the node and the child become one."""
        assert node.parent is not None
        length = node.length + 1
        child.source, child.start, child.length = self._source, place + 1 - length, length
        child.token, child.parent = node.token, node.parent
        child.count += 1
        node.parent.adopt(child)
        return child

    def _enter(self, node: Node, child: Node, place: int) -> Node:
        """The suffix goes to the end of a leaf, or into the middle of an edge, which is split there."""
        if child.size() == 1:
            child.length = 1
            child.count += 1
            end = child
        else:
            end = Node(self._source, place, 1, 0, child.count + 1, node)
            child.shorten()
            child.parent = end
            end.head = child
        node.adopt(end)
        return end

    def match(self, key: list[int]) -> tuple[Node, int] | None:
        """Where a string ends: the node at or behind it, and how much of that node's label is passed."""
        node, at, size = self._root, 0, 0
        for token in key:
            if at == size:
                child = node.child(token)
                if child is None:
                    return None
                node, at, size = child, 0, child.size()
            if node.source.items[node.start + at] != token:
                return None
            at += 1
        return node, at
