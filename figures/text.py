"""Words from outside, shown as text: prompts, model names, paths.

Whatever a user typed is drawn and printed character by character. What has no shape of its own (control
characters, halves of surrogate pairs, marks that turn the writing direction) gets a visible stand-in, and
what is too long is cut in the middle of nowhere but says so with an ellipsis. Escaping of markup is left to
the template; figures switch mathematical typesetting off (`figures.style`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Any

NAMED = {"\n": "↵", "\r": "↵", "\t": "→"}
TURNING = {*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff\u200b\u2060"}
LETTER_EMS = 0.6  # an average letter of DejaVu Sans
MAX_MARKS = 2
"""Combining marks on one letter; scripts rarely need more, and stacks of hundreds climb over other lines."""


def number(value: float | None, form: str, none: str = "-") -> str:
    """A number as `form` writes it, and `none` where there is none.

    >>> number(1.5, "{:.2f}x"), number(None, "{:.2f}x")
    ('1.50x', '-')
    """
    return none if value is None else form.format(value)


def plain(value: object, width: int = 200) -> str:
    """The text of a value, on one line of at most `width` characters, every character visible.

    >>> plain("a\\nb\\x1b[31m")
    'a↵b␛[31m'
    >>> plain("long" * 9, width=10)
    'longlongl…'
    """
    text = str(value)
    shown: list[str] = []
    marks = 0
    for character in text[: 2 * width + 1]:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= MAX_MARKS:
            shown.append(_visible(character))
    line = "".join(shown)
    return line if len(line) <= width and len(text) <= 2 * width + 1 else line[: width - 1] + "…"


def _visible(character: str) -> str:
    if character in NAMED:
        return NAMED[character]
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    if character in TURNING or unicodedata.category(character) in ("Cc", "Cs", "Cn"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


@lru_cache(maxsize=1)
def _font() -> Any:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    font = FT2Font(findfont("DejaVu Sans"))
    font.set_size(100, 72)
    return font


@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    return frozenset(_font().get_charmap())


@lru_cache(maxsize=4096)
def _advance(character: str) -> float:
    return float(_font().load_char(ord(character)).linearHoriAdvance) / 65536 / 100


def ems(text: str) -> float:
    """The width of a text in the figures' font, as a multiple of its size.

    >>> 0.5 < ems("fused") / 5 < 0.7 < ems("W")
    True
    """
    return sum(map(_advance, text))


def drawn(value: object, width: int = 24) -> str:
    """`plain`, as wide as `width` average letters at most, with a box for what the figures' font cannot draw.

    The font is DejaVu Sans, which comes with matplotlib, so it is everywhere.

    >>> drawn("$x_1$ 和"), drawn("W" * 20, 10)
    ('$x_1$ □', 'WWWWW…')
    """
    line = "".join(c if ord(c) in _glyphs() else "□" for c in plain(value, width))
    fits = _fitting(line, width)
    return line if fits == len(line) else line[: max(_fitting(line, width - 1.5), 1)] + "…"


def _fitting(text: str, width: float) -> int:
    """How many leading characters are as wide as `width` average letters together."""
    reach = accumulate(map(_advance, text))
    return sum(1 for _ in takewhile(lambda end: end <= LETTER_EMS * width, reach))


def wrapped(text: str, width: int, most_lines: int = 9) -> str:
    """Lines of at most `width` average letters, broken at spaces where there are any.

    >>> wrapped("locked repetition", 14).splitlines()
    ['locked', 'repetition']
    """
    lines: list[str] = []
    while text and len(lines) < most_lines:
        end = max(_fitting(text, width), 1)
        if end < len(text) and " " in text[1 : end + 1]:
            end = text.rindex(" ", 1, end + 1)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    if text:
        lines[-1] = lines[-1][: max(_fitting(lines[-1], width - 1.5), 1)] + "…"
    return "\n".join(lines)


def apart(names: Iterable[str], width: int = 24) -> dict[str, str]:
    """What to draw for each name, so that names which differ only behind the cut stay apart.

    >>> apart(["the same 1", "the same 2"], width=9)
    {'the same 1': 'the sam…', 'the same 2': 'the … (2)'}
    """
    shown: dict[str, str] = {}
    for name in dict.fromkeys(names):
        label, again = drawn(name, width), 2
        while label in shown.values():
            mark = f" ({again})"
            label, again = drawn(name, max(width - len(mark), 2)) + mark, again + 1
        shown[name] = label
    return shown


def listed(words: Iterable[str]) -> str:
    """Words as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def times(ratio: float | None) -> str:
    """A speedup as it is printed.

    >>> times(1.7142), times(None)
    ('1.71x', '–')
    """
    return "–" if ratio is None or ratio != ratio else f"{ratio:.2f}x"


def percent(share: float | None, sign: str = "-") -> str:
    """A share in percent, one decimal; `sign` as in a format, and none before what rounds to zero.

    >>> percent(0.0123), percent(-0.0123, "+"), percent(-0.0002, "+"), percent(None)
    ('1.2 %', '-1.2 %', '0.0 %', '–')
    """
    if share is None:
        return "–"
    return "0.0 %" if abs(share) < 5e-4 else f"{100 * share:{sign}.1f} %"
