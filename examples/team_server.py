"""A memory server for two people: HTTP on, a token each, and neither sees what the other stores.

    python examples/team_server.py [PORT]

The server is the daemon of this home (INFINITE_MEMORY_HOME). It listens on this machine alone; others come through SSH or your proxy.
"""

import json
import subprocess
import sys

from infinite_memory import Memory

PORT = sys.argv[1] if len(sys.argv) > 1 else "8765"


def run(*arguments: str) -> str:
    """Run the command and return what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "infinite_memory", *arguments], check=True, capture_output=True, text=True
    ).stdout


def start() -> str:
    """Start the daemon with HTTP and return its address."""
    run("daemon", "start", "--set", f"http.port={PORT}")
    status = json.loads(run("daemon", "status", "--json"))
    if "url" not in status.get("http", {}):
        sys.exit("a daemon without HTTP runs already: infinite-memory daemon stop")
    return status["http"]["url"]


def main() -> None:
    url = start()
    people = {}
    for name in ("alice", "bob"):
        token = json.loads(run("tokens", "create", "--name", f"{name}-laptop", "--user", name, "--json"))["token"]
        people[name] = Memory(url=url, token=token)
        print(f"{name}: a token that is bound to {name}'s memories")

    people["alice"].add("Prefers dark mode")
    people["bob"].add("Is allergic to nuts")
    for name, memory in people.items():
        texts = [item.content for item in memory.list_memories()]
        print(f"{name} sees {texts}")
    print(f"the server is at {url}; `infinite-memory tokens list` shows the tokens")


if __name__ == "__main__":
    main()
