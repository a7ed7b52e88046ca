"""What tests read off a report page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "link", "img", "br", "hr"}
CELLS = {"td", "th"}


class Page(HTMLParser):
    """Collects what a page loads, its text, its table and its scripts, and checks its nesting."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.open: list[str] = []
        self.loads: list[tuple[str, str, str]] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, str]] = []
        self.inside: list[int] = []
        self.text: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.rows: list[list[str]] = []
        self.cells: list[list[dict[str, str | None]]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        for name, value in attrs:
            if name in {"src", "href", "srcset", "data", "poster", "action"}:
                self.loads.append((tag, name, value or ""))
        if tag not in VOID:
            self.open.append(tag)
            self.inside.append(len(self.elements))
            self.elements.append((tag, ""))
        if tag == "tr":
            self.rows.append([])
            self.cells.append([])
        if tag in CELLS:
            self.rows[-1].append("")
            self.cells[-1].append(dict(attrs))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.inside.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self.open and self.open[-1] != "style":
            self.text.append(data)
            tag, text = self.elements[self.inside[-1]]
            self.elements[self.inside[-1]] = (tag, text + data)
        if CELLS & set(self.open):
            self.rows[-1][-1] += data

    @property
    def words(self) -> str:
        """All text."""
        return " ".join(self.text).replace("\N{NO-BREAK SPACE}", " ")

    def all(self, *tags: str) -> list[str]:
        """Return the text of each element with one of the tags, without its children's."""
        return [text for tag, text in self.elements if tag in tags]

    @property
    def figures(self) -> list[dict[str, Any]]:
        """The data of the figures."""
        return [json.loads(text) for attributes, text in self.scripts if "type" in attributes]
