"""The price of a pass over several sequences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.batched import SlotCost
from costmodel.passcost import Affine, Flat, PassCost, Table, WithChange

GRID = tuple(tuple(0.01 + 0.001 * n + 1e-6 * past for n in (1, 2, 6)) for past in (0, 512))
COSTS: tuple[PassCost, ...] = (
    Flat(0.02),
    Affine(0.01, 0.001, 1e-6, 1e-4),
    Table((1, 2, 6), (0, 512), GRID, change_seconds=4e-4),
    WithChange(Flat(0.02), 0.001),
)


@given(
    st.sampled_from(COSTS),
    st.integers(0, 512),
    st.sampled_from((1, 2, 6)),
    st.sampled_from((None, 1, 6)),
    st.sampled_from(("sum", "longest", "mean")),
)
def test_one_sequence_costs_what_it_costs_alone(
    cost: PassCost, past: int, rows: int, before: int | None, view: str
) -> None:
    slots = SlotCost(cost, Flat(9.0), view)  # type: ignore[arg-type]
    assert slots.seconds((past,), rows, rows, before) == cost.seconds(past, rows, rows, before)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=9), st.integers(2, 64))
def test_views_of_the_cache(lengths: list[int], rows: int) -> None:
    """The views are ordered, meet where all are equally long, and each is its own definition."""
    cost = Affine(0.008, 0.001, past_seconds=1e-6)
    by = {view: SlotCost(cost, view=view).seconds(lengths, rows, rows) for view in ("sum", "longest", "mean")}  # type: ignore[arg-type]
    assert by["mean"] <= by["longest"] <= by["sum"]
    assert by["sum"] == cost.seconds(sum(lengths), rows, rows)
    assert by["longest"] == cost.seconds(max(lengths), rows, rows)
    assert SlotCost(cost, view="mean").seconds([7] * len(lengths), rows, rows) == cost.seconds(7, rows, rows)


def test_what_was_measured_over_several_sequences_goes_first() -> None:
    assert SlotCost(Flat(1.0), Flat(3.0)).seconds((5, 6), 2, 2) == 3.0
    change = SlotCost(WithChange(Flat(1.0), 0.5))
    assert (change.seconds((5, 6), 4, 4, 2), change.seconds((5, 6), 4, 4, 4)) == (1.5, 1.0)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="view must be one of sum, longest, mean, not 'max'"):
        SlotCost(Flat(1.0), view="max")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one sequence"):
        SlotCost(Flat(1.0)).seconds((), 1, 1)
    with pytest.raises(ValueError, match="no passes of 12 rows"):
        SlotCost(COSTS[2]).seconds((5, 6), 12, 12)
