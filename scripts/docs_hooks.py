"""What the site has beyond ``docs/``: pages made of the repository's own SECURITY.md, CONTRIBUTING.md and CHANGELOG.md, whose links lead
to the site's pages. MkDocs calls these functions by their names (mkdocs.yml, ``hooks``).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"(```.*?^```$)", re.DOTALL | re.MULTILINE)
SITE_ROOTS = {"README.md": "index.md"}
"""Files of the repository that are no page, and the page that says the same."""


def root_pages() -> dict[str, tuple[str, str]]:
    """Return the pages that are made of files at the root: path on the site to the file's name and the page's text."""
    security = (ROOT / "SECURITY.md").read_text("utf-8")
    first, promises = security.split("## What is promised\n")
    promises, last = promises.split("## What is not promised\n")
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    work, glossary = contributing.split("## Glossary\n")
    glossary, _, later = glossary.partition("\n## ")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.split(r"^(?=## )", changes, flags=re.MULTILINE)[1]
    breaking = "".join(re.split(r"^(?=### )", newest, flags=re.MULTILINE)[:2])
    upgrade = "What to know before you upgrade to the newest version; CHANGELOG.md in the repository has the rest."
    purpose = "What is promised about safety; behind each promise stands the test that holds it."
    return {
        "security/index.md": ("SECURITY.md", f"{first}## What is not promised\n{last}"),
        "security/promises.md": ("SECURITY.md", f"# What is promised\n\n{purpose}\n{promises.replace('### ', '## ')}"),
        "contributing/index.md": ("CONTRIBUTING.md", f"{work}## {later}"),
        "contributing/glossary.md": ("CONTRIBUTING.md", f"# Glossary\n\nThe words of the code, and what they replaced.\n{glossary}"),
        "contributing/changes.md": ("CHANGELOG.md", f"# Changes\n\n{upgrade}\n\n{breaking}"),
    }  # fmt: skip


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files at the root."""
    for path, (_, text) in root_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the repository's files to the pages that are made of them."""
    pages = root_pages()
    source = page.file.src_uri
    origin = f"./{pages[source][0]}" if source in pages else f"docs/{source}"
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _relinked(part, source, origin, pages) for part in parts)


def _relinked(text: str, source: str, origin: str, pages: dict[str, tuple[str, str]]) -> str:
    def relink(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[2]))
        inside = target.startswith("docs/")
        path = target.removeprefix("docs/") if inside else _page_of(target, match[3].strip("#)"), pages)
        return f"{match[1]}{posixpath.relpath(path, posixpath.dirname(source) or '.')}{match[3]}" if path else match[0]

    return LINK.sub(relink, text)


def _page_of(target: str, anchor: str, pages: dict[str, tuple[str, str]]) -> str | None:
    """Return the page that holds *anchor* of the file *target* at the root; without an anchor the first page made of it."""
    made = [path for path, (name, _) in pages.items() if name == target]
    for path in made:
        if anchor in {_slug(title) for title in HEADING.findall(pages[path][1])}:
            return path
    return made[0] if made else SITE_ROOTS.get(target)


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
