"""HTML and SVG from Python: whatever is not marked as HTML is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def element(name: str, *content: object, **attributes: Any) -> Html:
    """An element of HTML or SVG.

    Parameters
    ----------
    name : str
        Its name.
    *content
        What it holds, in order: `Html` as it is, anything else as escaped text.
    **attributes
        Underscores stand for hyphens, but one at the end, as in `class_`, for nothing. None leaves an attribute out.

    Examples
    --------
    >>> element("p", "a < b ", element("b", "c"), class_="note", aria_hidden="true")
    '<p class="note" aria-hidden="true">a &lt; b <b>c</b></p>'
    """
    given = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{''.join(given)}>{joined(content)}</{name}>")


def joined(content: Iterable[object]) -> Html:
    """Several pieces as one, escaped where they are not HTML."""
    return Html("".join(piece if isinstance(piece, Html) else escape(str(piece)) for piece in content))


def table(caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], *, class_: str | None = None) -> Html:
    """A table that scrolls within itself where it is wider than the page.

    Parameters
    ----------
    caption : str
        What it shows.
    head : sequence
        The heading of each column.
    rows : iterable of sequences
        The cells of each row, of which the first is its heading; an `Html` cell that is a `<td>` is taken as it is.
    class_ : str or None
        Its style.
    """
    body = [
        element("tr", element("th", first, scope="row"), *(_cell(cell) for cell in cells)) for first, *cells in rows
    ]
    content = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", *(element("th", name, scope="col") for name in head))),
        element("tbody", *body),
        class_=class_,
    )
    # Whoever uses a keyboard can scroll it, too.
    return element("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cell(cell: object) -> Html:
    return cell if isinstance(cell, Html) and cell.startswith("<td") else element("td", cell)


def paragraph(*content: object, class_: str | None = None) -> Html:
    """A paragraph."""
    return element("p", *content, class_=class_)
