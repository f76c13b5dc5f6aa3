"""Import a ChatGPT export: what would come in, then the import, then a question put to it.

    python examples/import_chatgpt.py chatgpt-export.zip ["a question"]

The zip is what ChatGPT sends by mail (Settings, Data controls, Export). Doing it twice adds nothing.
"""

import json
import subprocess
import sys

from infinite_memory import Memory

SCOPE = "ChatGPT"


def run(*arguments: str) -> str:
    """Run the command and return what it prints; ends this program where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "infinite_memory", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    return done.stdout


def import_file(path: str) -> None:
    would = json.loads(run("import", path, "--format", "chatgpt", "--into-scope", SCOPE, "--dry-run", "--json"))
    print(
        f"{would['added']} memories would come in, {would['present']} are there already, {would['skipped']} are left out:"
    )
    for reason, count in (would.get("skipped_reasons") or {}).items():
        print(f"  {count} times: {reason}")
    done = json.loads(run("import", path, "--format", "chatgpt", "--into-scope", SCOPE, "--json"))
    print(f"{done['added']} memories came in.")


def ask(question: str) -> None:
    with Memory(scope=SCOPE) as memory:
        for hit in memory.search(question, limit=3):
            print(f"{hit.timestamp:%Y-%m-%d} {hit.speaker or ''}: {hit.content}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    import_file(sys.argv[1])
    if len(sys.argv) > 2:
        ask(sys.argv[2])
