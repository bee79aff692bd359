"""What one pass over the rows of several sequences costs, from what passes of one sequence cost.

    seconds = c(total rows, a cached length, total answers wanted)

The weights are swept once for all rows, so the total of the rows is what counts. The cached length depends on how the
sequences share the KV cache: in one unified cache every row looks at the cells of all (`sum`); in a cache with a part
for each sequence a row looks at its own, padded to the longest where all go in one graph (`longest`), or not (`mean`).
A pass of one sequence costs exactly what it costs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from costmodel.passcost import PassCost, Table

View: TypeAlias = Literal["sum", "longest", "mean"]


@dataclass(frozen=True, slots=True)
class SlotCost:
    """The price of a pass by each sequence's cached length.

    one      prices a pass of one sequence, exactly
    several  prices passes over several, by total rows and the cached length that `view` makes of theirs; where it was
             not measured, `one` does
    view     `sum`, `longest` or `mean` of the cached lengths; the mean is rounded up to whole tokens

    Raises ValueError for any other view.

    >>> from costmodel.passcost import Affine
    >>> cost = SlotCost(Affine(0.008, 0.001, past_seconds=1e-6))
    >>> cost.seconds((1000,), 6, 6), cost.seconds((1000, 2000), 12, 12)
    (0.015, 0.023)
    """

    one: PassCost
    several: PassCost | None = None
    view: View = "sum"

    def __post_init__(self) -> None:
        if self.view not in get_args(View):
            raise ValueError(f"view must be one of {', '.join(get_args(View))}, not {self.view!r}")

    def seconds(self, n_past: Sequence[int], n_rows: int, n_out: int, n_rows_before: int | None = None) -> float:
        """Seconds of one pass of `n_rows` rows in all, `n_out` answers wanted in all, behind a pass of so many rows.

        `n_past` has one cached length for each sequence in the pass. Raises ValueError where the cost does not reach.
        """
        if len(n_past) == 1:
            return self.one.seconds(n_past[0], n_rows, n_out, n_rows_before)
        return (self.several or self.one).seconds(self._length(n_past), n_rows, n_out, n_rows_before)

    def check_rows(self, n_rows: int, n_sequences: int) -> None:
        """Raise ValueError when a table lacks a pass that so many sequences of 1 to `n_rows` rows each can make.

        >>> from costmodel.passcost import Table
        >>> SlotCost(Table((1, 2), (0,), ((0.01, 0.012),))).check_rows(2, 1)
        """
        for cost, n, least in ((self.one, 1, 1), (self.several or self.one, n_sequences, 2)):
            missing = set(range(least, n * n_rows + 1)) if isinstance(cost, Table) and not cost.extrapolate else set()
            if isinstance(cost, Table) and missing - set(cost.n_rows):
                raise ValueError(
                    f"{n} {'slots' if n > 1 else 'slot'} of up to {n_rows} rows make passes of up to {n * n_rows} rows,"
                    f" but the cost table has only {', '.join(map(str, cost.n_rows))}: measure them, or ask for"
                    " extrapolation"
                )

    def _length(self, n_past: Sequence[int]) -> int:
        if not n_past:
            raise ValueError("a pass needs the rows of at least one sequence")
        if self.view == "longest":
            return max(n_past)
        total = sum(n_past)
        return total if self.view == "sum" else -(-total // len(n_past))
