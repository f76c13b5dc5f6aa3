"""A password in a setting is seen nowhere: replies, notifications, errors, logs, arguments; whatever way it came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Client, Installation, processes_of, until

PASSWORD = "Pl4nted%2FPassw0rd"
SEEN_AS = (PASSWORD, "Pl4nted/Passw0rd", "Pl4nted")
URI = f"mongodb://ann:{PASSWORD}@127.0.0.1:9/?authSource=admin&authMechanismProperties=AWS_SESSION_TOKEN:{PASSWORD}"
URL = f"http://ann:{PASSWORD}@127.0.0.1:9/v1?key={PASSWORD}"
SECRETS = {"mongodb.uri": URI, "model.url": URL}
BESIDE = {
    "mongodb.timeout_s": "0.5",
    "recall.wait_s": "0.5",
    "log.level": "DEBUG",
    "model.api": "openai",
    "model.name": "m",
}


def look(installation: Installation, *texts: str) -> None:
    """Look for the password everywhere."""
    for text in texts:
        assert not any(one in text for one in SEEN_AS), text
    for file in (installation.home / "logs").glob("*"):
        assert not any(one in file.read_text("utf-8", "replace") for one in SEEN_AS), file
    for name in ("daemon.json", "daemon.pid"):
        assert not any(one in (installation.home / name).read_text() for one in SEEN_AS)
    clients = {client.process.pid for client in installation.clients}  # their arguments are their user's
    for pid in processes_of(installation.home):
        if pid not in clients:
            assert not any(one in Path(f"/proc/{pid}/cmdline").read_text() for one in SEEN_AS)


def talk(client: Client) -> str:
    """Ask for everything that may tell of settings, and let things fail."""
    said = []
    for action in ("get_memory_stats", "health_check", "help", "ping"):
        said.append(json.dumps(client.ask(action)))
    said.append(json.dumps(client.ask("store_memory", content="tea")))
    said.append(json.dumps(client.ask("import_memory", mongodb_uri=URI)))
    said.append(json.dumps(client.ask("import_memory", mongodb_uri=f"mongodb://ann:{PASSWORD}@evil.example/x")))
    return "\n".join(said)


def mcp(client: Client) -> str:
    client.initialize()
    client.tool(1, "get_memory_stats")
    client.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "help", "arguments": {}}})
    client.send(
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "health_check", "arguments": {}}}
    )
    client.stdin.close()
    return json.dumps(client.rest())


@pytest.fixture(params=["environment", "file", "flag"])
def started(request: pytest.FixtureRequest, installation: Installation) -> Iterator[tuple[Installation, list[str]]]:
    """A daemon that has the password in its settings, and the arguments of its clients."""
    arguments: list[str] = []
    for name, value in (SECRETS | BESIDE).items():
        section, _, key = name.partition(".")
        if request.param == "flag":
            arguments += ["--set", f"{name}={value}"]
        elif request.param == "environment":
            installation.environ[f"INFINITE_MEMORY_{section.upper()}__{key.upper()}"] = value
    if request.param == "file":
        del installation.environ["INFINITE_MEMORY_MONGODB__TIMEOUT_S"]  # it comes before the file
        installation.home.mkdir()
        lines = [
            f"{name} = {value if value.replace('.', '').isdigit() else json.dumps(value)}"
            for name, value in (SECRETS | BESIDE).items()
        ]
        (installation.home / "config.toml").write_text("\n".join(lines) + "\n")
        text = (installation.home / "config.toml").read_text()
        assert PASSWORD in text
        sections: dict[str, list[str]] = {}
        for line in lines:
            section, _, rest = line.partition(".")
            sections.setdefault(section, []).append(rest)
        written = "\n".join(f"[{section}]\n" + "\n".join(rest) for section, rest in sections.items())
        (installation.home / "config.toml").write_text(written)
    yield installation, arguments


def test_a_password_in_a_setting_is_seen_nowhere(started: tuple[Installation, list[str]]) -> None:
    installation, arguments = started
    client = installation.serve(*arguments)
    look(installation, talk(client), client.errors())
    other = installation.serve(*arguments)
    look(installation, mcp(other), other.errors())
    for contract in ("agentmem", "palace"):
        sibling = installation.serve("--contract", contract, *arguments)
        sibling.initialize()
        tool = {"agentmem": "agentmem_chat", "palace": "palace_list"}[contract]
        look(installation, json.dumps(sibling.tool(1, tool, user_id="ann", message="hello")), sibling.errors())
    for command in (["config"], ["config", "--json"], ["doctor"], ["stats"], ["daemon", "status"], ["help", "ping"]):
        done = installation.command(*command, *([] if command[0] == "daemon" else arguments))
        look(installation, done.stdout, done.stderr)
    assert "mongodb://***@127.0.0.1:9/?***" in installation.command("config", *arguments).stdout
    installation.command("daemon", "stop")
    until(lambda: installation.daemon_pid() is None, "the daemon has stopped")


def test_a_setting_of_a_client_that_is_ignored_is_named_without_its_password(shared: Installation) -> None:
    client = shared.serve("--set", f"mongodb.uri={URI}", "--set", f"model.url={URL}")
    look(shared, talk(client), client.errors())
    assert "mongodb.uri = 'mongodb://***@127.0.0.1:9/?***' is ignored" in client.errors()
    other = shared.serve(environ={"INFINITE_MEMORY_MONGODB__URI": URI})
    look(shared, mcp(other), other.errors())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", f"mongodb.uri=mongodb://ann:{PASSWORD}@a@b"],
        ["--set", f"mongodb.uri {URI}"],
        ["--set", f"mongodb.url={URI}"],
        ["--set", f"mongodb.uri=mongodb://ann:{PASSWORD}@host:port/"],
    ],
)
def test_a_wrong_setting_is_refused_without_its_password(installation: Installation, arguments: list[str]) -> None:
    for command in (["call", "get_memory_stats"], ["config"]):
        done = installation.command(*command, *arguments)
        assert not any(one in done.stdout + done.stderr for one in SEEN_AS)
        assert done.returncode in (1, 2) or command == ["config"]
