"""Draws the pictures of docs/assets: the architecture, the way of a write and of a question, and the bars of a peer.

``python scripts/make_drawings.py``; with ``--check`` it names what is not current. Boxes are placed on a grid by hand; the bars are read
from docs/performance-peers.md, so that a picture never says more than what was measured.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "docs" / "assets"
FIGURES = ROOT / "docs" / "performance-peers.md"
STEP_X, STEP_Y, MARGIN = 190, 96, 16
"""Pixels of one field of the grid, and around it."""
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1c2430; text-anchor: middle }
.small { font-size: 12px; fill: #4a5666 }
.left { text-anchor: start }
.right { text-anchor: end }
rect.ground { fill: #fbfcfe }
rect.box { fill: #e8edfb; stroke: #4051b5 }
rect.store { fill: #e3f3e8; stroke: #2b7a4b }
rect.ours { fill: #4051b5 }
rect.database { fill: #2b7a4b }
rect.peer { fill: #b06a2c }
path { stroke: #4a5666; fill: none; stroke-width: 1.5 }
#head path { fill: #4a5666 }
"""

HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)
_ROW = re.compile(
    r"^\| (CPU of (?:store|retrieve), ms|memory of \d+ windows, resident, MiB) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Box:
    """A box on the grid: its first line is its name, the others say more."""

    x: float
    y: float
    lines: tuple[str, ...]
    width: float = 0.86
    kind: str = "box"


def draw(title: str, boxes: dict[str, Box], arrows: list[tuple[str, str, str]]) -> str:
    """Return a picture of boxes and of arrows between them, each with a word."""
    right = max(box.x + box.width for box in boxes.values())
    bottom = max(box.y for box in boxes.values()) + 0.62
    parts = []
    for start, end, word in arrows:
        parts.append(_arrow(boxes[start], boxes[end], word))
    for box in boxes.values():
        x, y = MARGIN + box.x * STEP_X, MARGIN + box.y * STEP_Y
        width, height = box.width * STEP_X, 0.62 * STEP_Y
        parts.append(f'<rect class="{box.kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>')
        first = y + height / 2 + 5 - 8 * (len(box.lines) - 1)
        for number, line in enumerate(box.lines):
            size = ' class="small"' if number else ""
            parts.append(f'<text{size} x="{x + width / 2:g}" y="{first + 17 * number:g}">{escape(line)}</text>')
    return _picture(title, 2 * MARGIN + right * STEP_X, 2 * MARGIN + bottom * STEP_Y, parts)


def _arrow(start: Box, end: Box, word: str) -> str:
    half = 0.31
    if abs(start.y - end.y) < half:
        forward = start.x < end.x
        x1, x2 = (start.x + start.width, end.x) if forward else (start.x, end.x + end.width)
        y1 = y2 = start.y + half
    else:
        downward = start.y < end.y
        y1, y2 = (start.y + 2 * half, end.y) if downward else (start.y, end.y + 2 * half)
        low = max(start.x, end.x)
        high = min(start.x + start.width, end.x + end.width)
        x1 = x2 = (low + high) / 2
    points = [MARGIN + value * step for value, step in ((x1, STEP_X), (y1, STEP_Y), (x2, STEP_X), (y2, STEP_Y))]
    line = f'<path d="M{points[0]:g} {points[1]:g} L{points[2]:g} {points[3]:g}" marker-end="url(#head)"/>'
    middle = (points[0] + points[2]) / 2, (points[1] + points[3]) / 2
    beside = (8, 4, "small left") if x1 == x2 else (0, -6, "small")
    label = (
        f'<text class="{beside[2]}" x="{middle[0] + beside[0]:g}" y="{middle[1] + beside[1]:g}">{escape(word)}</text>'
    )
    return line + (label if word else "")


def _picture(title: str, width: float, height: float, parts: list[str]) -> str:
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">'
    ground = f'<rect class="ground" width="{width:g}" height="{height:g}" rx="8"/>'
    about = f"<title>{escape(title)}</title>"
    return "\n".join([opening, about, f"<style>{STYLE}</style>", HEAD, ground, *parts, "</svg>"]) + "\n"


def architecture() -> str:
    """Draw clients, the daemon with its layers, and where things are stored."""
    clients = (
        "assistants|MCP by a pipe",
        "programs|lines, Python",
        "scripts, cron|call, search",
        "people|page, terminal",
        "others|HTTP, tokens",
    )
    boxes = {f"client{number}": Box(number * 0.95, 0, tuple(text.split("|"))) for number, text in enumerate(clients)}
    boxes |= {
        "transports": Box(0, 1, ("transports: bytes to requests", "lines, JSON-RPC, MCP, HTTP"), 4.66),
        "contracts": Box(
            0, 2, ("contracts: fields checked, replies made", "native, Memory Server, palace, Laravel, AgentMem"), 4.66
        ),
        "engine": Box(0, 3, ("engine: what the product does", "memories, recall, forget, scopes, graph"), 3.05),
        "jobs": Box(3.24, 3, ("backup, transfer, jobs", "the whole, and by night"), 1.42),
        "embedding": Box(0, 4, ("embedding", "text to vector"), 0.74),
        "time": Box(0.8, 4, ("time in words", "to a range"), 0.74),
        "index": Box(1.6, 4, ("index", "FAISS, tantivy"), 0.84),
        "store": Box(2.5, 4, ("store", "the one way to MongoDB"), 2.16),
        "sidecars": Box(1.6, 5, ("sidecars", "derived"), 0.84, "store"),
        "mongodb": Box(2.5, 5, ("MongoDB", "the truth"), 2.16, "store"),
    }
    arrows = [(f"client{number}", "transports", "") for number in range(len(clients))]
    arrows += [
        ("transports", "contracts", ""),
        ("contracts", "engine", ""),
        ("contracts", "jobs", ""),
        ("engine", "embedding", ""),
    ]
    arrows += [
        ("engine", "index", ""),
        ("engine", "time", ""),
        ("engine", "store", ""),
        ("jobs", "store", ""),
        ("index", "sidecars", ""),
        ("store", "mongodb", ""),
    ]
    return draw("Clients above, the daemon's layers in the middle, storage below", boxes, arrows)


def write() -> str:
    """Draw the way of a write."""
    boxes = {
        "client": Box(0, 0, ("client", "a line, a call")),
        "daemon": Box(1.25, 0, ("daemon", "checks, embeds")),
        "mongodb": Box(3, 0, ("MongoDB", "document, vectors"), 0.86, "store"),
        "index": Box(3, 1, ("indexes", "derived"), 0.86, "store"),
        "reply": Box(1.25, 1, ("OK", "after both")),
    }
    return draw("A write: MongoDB first, then the indexes, then the reply", boxes, [
        ("client", "daemon", "1 read"), ("daemon", "mongodb", "2 majority, journal"), ("mongodb", "index", "3"), ("index", "reply", "4"),
    ])  # fmt: skip


def recall() -> str:
    """Draw the way of a question."""
    boxes = {
        "question": Box(0, 0.5, ("question", "and filter")),
        "embed": Box(1.1, 0, ("embed", "on this machine")),
        "words": Box(1.1, 1, ("words", "stems, rarity")),
        "vectors": Box(2.2, 0, ("nearest in meaning", "within the mask"), 0.9),
        "bm25": Box(2.2, 1, ("nearest in words", "within the mask"), 0.9),
        "rank": Box(3.35, 0.5, ("rank together", ".6 meaning, .4 words"), 0.9),
        "read": Box(4.5, 0.5, ("read", "from MongoDB"), 0.8, "store"),
    }
    arrows = [("embed", "vectors", ""), ("words", "bm25", ""), ("rank", "read", "")]
    picture = draw("A question: by meaning and by words within a filter, ranked together, then read", boxes, arrows)
    bends = []
    for start, end in (("question", "embed"), ("question", "words"), ("vectors", "rank"), ("bm25", "rank")):
        one, other = boxes[start], boxes[end]
        x1, y1 = MARGIN + (one.x + one.width) * STEP_X, MARGIN + (one.y + 0.31) * STEP_Y
        x2, y2 = MARGIN + other.x * STEP_X, MARGIN + (other.y + 0.31) * STEP_Y
        bends.append(f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" marker-end="url(#head)"/>')
    return picture.replace("</svg>", "\n".join(bends) + "\n</svg>")


def peers() -> str:
    """Draw the figures of the table of docs/performance-peers.md as bars, MongoDB's share in a colour of its own."""
    text = FIGURES.read_text("utf-8")
    name = re.search(r"load [\d.]+: (\S+ \S+) with", text)
    rows = _ROW.findall(text)
    assert name
    assert len(rows) == 3
    parts, y, length = [], 40.0, 400.0
    parts.append(
        f'<text class="small left" x="16" y="22">InfiniteMemory with its MongoDB, and {escape(name[1])}: shorter is better</text>'
    )
    for title, own, database, peer in rows:
        ours, mongodb, theirs = float(own), float(database), float(peer)
        scale = length / max(ours + mongodb, theirs)
        parts.append(f'<text class="right" x="270" y="{y + 27:g}">{escape(title)}</text>')
        parts.append(f'<rect class="ours" x="280" y="{y:g}" width="{ours * scale:g}" height="16"/>')
        parts.append(
            f'<rect class="database" x="{280 + ours * scale:g}" y="{y:g}" width="{mongodb * scale:g}" height="16"/>'
        )
        parts.append(
            f'<text class="small left" x="{286 + (ours + mongodb) * scale:g}" y="{y + 13:g}">{ours:g} + {mongodb:g}</text>'
        )
        parts.append(f'<rect class="peer" x="280" y="{y + 20:g}" width="{theirs * scale:g}" height="16"/>')
        parts.append(f'<text class="small left" x="{286 + theirs * scale:g}" y="{y + 33:g}">{theirs:g}</text>')
        y += 54
    return _picture(f"CPU and memory beside {name[1]}", 760, y + 6, parts)


PICTURES = {"architecture": architecture, "write": write, "recall": recall, "peers": peers}


def main() -> int:
    """Write the pictures, or name those that are not current."""
    stale = []
    for name, picture in PICTURES.items():
        file, text = ASSETS / f"{name}.svg", picture()
        if not file.exists() or file.read_text("utf-8") != text:
            stale.append(file.name)
            if "--check" not in sys.argv[1:]:
                file.write_text(text, "utf-8")
    if "--check" in sys.argv[1:]:
        print("\n".join(stale))
        return int(bool(stale))
    return 0


if __name__ == "__main__":
    sys.exit(main())
