"""A page as a list of blocks, written as Markdown or as one self-contained HTML file."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import markdown

STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 68em; padding: 0 1em }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1em 0; font-size: 13px }
th, td { padding: 3px 9px; border-bottom: 1px solid #8884; text-align: left; white-space: nowrap }
svg { max-width: 100%; height: auto }
figure { margin: 1em 0; overflow-x: auto }
"""


@dataclass(frozen=True)
class Heading:
    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    text: str  # with **bold**, `code` and [links](to.files)


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    lines: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Picture:
    file: str  # an SVG in the folder of the page
    caption: str


Block = Heading | Paragraph | Table | Picture


def as_markdown(title: str, blocks: Sequence[Block]) -> str:
    """A page that refers to its pictures by their file names."""
    parts = [f"# {title}"]
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {text}")
            case Paragraph(text):
                parts.append(text)
            case Table(head, lines):
                parts.append(markdown(head, lines))
            case Picture(file, caption):
                parts.append(f"![{caption}]({file})")
    return "\n\n".join(parts) + "\n"


def as_html(title: str, blocks: Sequence[Block], folder: Path) -> str:
    """A page with its pictures embedded, which are read from the folder."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"<h{level}>{marked(text)}</h{level}>")
            case Paragraph(text):
                parts.append(f"<p>{marked(text)}</p>")
            case Table(head, lines):
                rows = [cells("th", head), *(cells("td", line) for line in lines)]
                parts.append(f"<table>{''.join(rows)}</table>")
            case Picture(file, caption):
                drawing = (folder / file).read_text()
                image = drawing[drawing.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)
                parts.append(f"<figure>{image}</figure>")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def cells(tag: str, line: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{marked(str(cell))}</{tag}>' for cell in line)}</tr>"


def marked(text: str) -> str:
    """Convert the marks that a paragraph may have to HTML."""
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)
