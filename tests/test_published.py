"""The page of published measurements: their own formula to the digit, and the page as committed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costmodel.acceptance import iid
from costmodel.passcost import Flat
from costmodel.throughput import steady
from validate.published import SECTIONS, leviathan_speedup, page, published, with_regimes


def test_leviathans_expected_speed_ups_to_the_digit() -> None:
    """They print one decimal; cut or rounded, the formula gives it."""
    for *_, gamma, alpha, c, printed, _ in published()["leviathan_table4"]["rows"]:
        formula = (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (gamma * c + 1))
        assert leviathan_speedup(iid(alpha), gamma, c) == pytest.approx(formula)
        assert formula == pytest.approx(printed, abs=0.08)
    for alpha, gamma, _, speed in published()["leviathan_table1"]["rows"]:
        assert steady("carry", iid(alpha), gamma + 1, Flat(1.0)).tokens_per_second == pytest.approx(speed, abs=5e-3)


def test_regimes_keep_the_mean_agreement() -> None:
    for alpha in (0.53, 0.82):
        for stay in (0.0, 0.5, 0.9):
            law = with_regimes(alpha, stay)
            (locked, free), shares = law.agreement[0], law.stationary
            assert shares[0] * locked + shares[1] * free == pytest.approx(alpha)
        memoryless = leviathan_speedup(with_regimes(alpha, 0.0), 5, 0.1)
        assert memoryless == pytest.approx(leviathan_speedup(iid(alpha), 5, 0.1))
        assert leviathan_speedup(with_regimes(alpha, 0.9), 5, 0.1) < memoryless


def test_the_committed_page_is_what_the_command_writes() -> None:
    """Word for word; numbers may differ in the last digit from one linear algebra library to the next."""
    committed = (Path(__file__).parent.parent / "docs" / "published.md").read_text(encoding="utf-8")
    number = re.compile(r"[+-]?\d+(?:\.\d+)?")
    assert number.sub("#", committed) == number.sub("#", page())
    told, now = ([float(text) for text in number.findall(words)] for words in (committed, page()))
    assert told == pytest.approx(now, rel=0.02, abs=0.11)
    assert all(f"## {title}\n" in committed for title in SECTIONS)
