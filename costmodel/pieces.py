"""The cost of one row count over the cached length: a line in each block of the padded KV view, and its jumps.

In a block with two or more measured lengths (knots) the line goes through them and on to the block's ends; a block
with one knot takes the slope of the nearest block that has one, or none; blocks without a knot lie on the straight
line between their neighbours' knots; beyond the last block the trend from the first knot to the last goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def corners(
    n_past: Sequence[int], seconds: Sequence[float], n_rows: int, padding: int | None, stop: int
) -> Iterator[tuple[float, float]]:
    """Corners of the piecewise linear cost over the cached length, at whole numbers, block by block."""
    trend = slope_of(list(zip(n_past, seconds, strict=True)))
    if padding is None:
        yield from zip(n_past, seconds, strict=True)
        yield stop, seconds[-1] + trend * (stop - n_past[-1])
        return
    blocks: dict[int, list[tuple[int, float]]] = {}
    for past, value in zip(n_past, seconds, strict=True):
        blocks.setdefault((past + n_rows - 1) // padding, []).append((past, value))
    sloped = {block: slope_of(knots) for block, knots in blocks.items() if len(knots) > 1}
    before: tuple[int, list[tuple[int, float]]] | None = None
    for block, knots in blocks.items():
        slope = sloped[min(sloped, key=lambda other: abs(other - block))] if sloped else 0.0
        start, end = max(block * padding - n_rows + 1, 0), (block + 1) * padding - n_rows
        if before is not None and before[0] + 1 < start:  # blocks in between without a knot
            (a, left), (b, right) = before[1][-1], knots[0]
            for past in (before[0] + 1, start - 1):
                yield past, left + (right - left) * (past - a) / (b - a)
        first, last = knots[0], knots[-1]
        yield start, max(first[1] - slope * (first[0] - start), min(seconds) / 2)
        yield from knots
        yield end, last[1] + slope * (end - last[0])
        before = end, knots
    end, (*_, last) = before if before is not None else (0, [(0, 0.0)])
    yield end + 1, last[1] + trend * (end + 1 - last[0])
    yield max(stop, end + 2), last[1] + trend * (max(stop, end + 2) - last[0])


def slope_of(knots: Sequence[tuple[int, float]]) -> float:
    """Seconds per cached token from the first knot to the last; never a fall, which can only be noise."""
    (a, first), (b, last) = knots[0], knots[-1]
    return max(0.0, (last - first) / (b - a)) if b > a else 0.0
