"""The page as a whole: its head with the style, the summary, the sections in two columns, and the footer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maxmargin.display.report.html import Html, element
from maxmargin.display.report.text import version


def page(title: str, header: Html, columns: Sequence[Sequence[Html]]) -> str:
    """The page: sections in columns, which follow each other on screens too narrow for two."""
    style = Html(Path(__file__).with_name("report.css").read_text(encoding="utf-8"))
    head = element(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", f"{title}: model report"),
        element("style", style),
    )
    footer = element("footer", f"Created with maxmargin {version()}. This page is self-contained: it works offline.")
    body = element("body", header, element("main", *(element("div", *sections) for sections in columns)), footer)
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"
