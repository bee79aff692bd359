"""docs/loops.md is what its command writes."""

from __future__ import annotations

import pytest

from docs.write_loops import PAGE, edges, page
from sim.loops import LOOPS


def test_the_page_is_what_the_machine_does() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run `python -m docs.write_loops`"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no <!-- begin loops -->"):
        page("hello")


@pytest.mark.parametrize("name", LOOPS)
def test_every_guessing_loop_reaches_every_situation(name: str) -> None:
    reached = {edge.origin for edge in edges(LOOPS[name])}
    assert reached == ({"plain"} if name == "greedy" else {"plain", "all right", "partly right", "all wrong"})
