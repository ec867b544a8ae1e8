"""HTML and SVG from Python: whatever is not marked as HTML is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

# Control characters, which HTML does not allow, other than tabs and line ends; and surrogates, which UTF-8 does not.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def element(name: str, *content: object, **attributes: Any) -> Html:
    """An element of HTML or SVG.

    Parameters
    ----------
    name : str
        The name of the tag.
    *content
        The content, in order: `Html` as it is, anything else as escaped text.
    **attributes
        Underscores stand for hyphens; an underscore at the end, as in `class_`, is dropped. None leaves an attribute
        out.

    Examples
    --------
    >>> element("p", "a < b ", element("b", "c"), class_="note", aria_hidden="true")
    '<p class="note" aria-hidden="true">a &lt; b <b>c</b></p>'
    """
    given = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{''.join(given)}>{joined(content)}</{name}>")


def escape(text: object) -> str:
    r"""Text as HTML; a character that HTML does not allow is replaced.

    >>> escape("a < b\0") == "a &lt; b\ufffd"
    True
    """
    return html.escape(_FORBIDDEN.sub("\ufffd", str(text)))


def joined(content: Iterable[object]) -> Html:
    """Several pieces as one, escaped where they are not HTML."""
    return Html("".join(piece if isinstance(piece, Html) else escape(piece) for piece in content))


def table(caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], *, class_: str | None = None) -> Html:
    """A table that scrolls within itself where it is wider than the page.

    Parameters
    ----------
    caption : str
        The caption.
    head : sequence
        The heading of each column.
    rows : iterable of sequences
        The cells of each row, of which the first is the heading of the row; an `Html` cell that is a `<td>` is taken
        as it is.
    class_ : str or None
        A class of the style.
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
    # With a tabindex the table can be scrolled from the keyboard, too.
    return element("div", content, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cell(cell: object) -> Html:
    return cell if isinstance(cell, Html) and cell.startswith("<td") else element("td", cell)


def section(title: str, *content: object) -> Html:
    """A section of the page."""
    return element("section", element("h2", title), *content)


def paragraph(*content: object, class_: str | None = None) -> Html:
    """A paragraph."""
    return element("p", *content, class_=class_)
