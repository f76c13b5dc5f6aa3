"""`infinite-memory tokens`: creates, lists, replaces and revokes tokens for HTTP clients through the daemon. A token is shown once."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from infinite_memory.cli import daemon_requests
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.errors import DaemonError
from infinite_memory.paths import find_home

Json = dict[str, Any]

OWNER = "owner"  # replaces the id of the owner's own token, in the file http.token


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    tokens = commands.add_parser("tokens", help="make, list, replace and revoke tokens for HTTP clients")
    actions = tokens.add_subparsers(dest="what", required=True, metavar="create|list|rotate|revoke")
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
    shared.add_argument("--json", action="store_true", help="print the reply as JSON")

    create = actions.add_parser("create", parents=[shared], help="make a token, and show it once")
    create.add_argument("--name", default="token", help="what it is for")
    create.add_argument(
        "--user", action="append", dest="users", metavar="ID", help="bind it to a user's memories; may be repeated"
    )
    create.add_argument(
        "--scope", action="append", dest="scopes_bound", metavar="NAME", help="bind it to a scope; may be repeated"
    )
    create.add_argument("--read-only", action="store_true", help="it changes nothing")
    create.add_argument(
        "--metrics", action="store_true", help="it reads /metrics and nothing else: no memory, no other address"
    )
    create.add_argument("--expires", metavar="WHEN", help="12h, 30d, 4w, a date or an instant; default: never")
    actions.add_parser("list", parents=[shared], help="every token, without its secret")
    rotate = actions.add_parser(
        "rotate", parents=[shared], help="replace a token by a new one at once, and show that once"
    )
    rotate.add_argument(
        "token_id",
        metavar="ID",
        nargs="?",
        default=OWNER,
        help="its id, as list shows it; default: the owner's own token",
    )
    revoke = actions.add_parser("revoke", parents=[shared], help="let a token open nothing any more")
    revoke.add_argument("token_id", metavar="ID", help="its id, as list shows it, or the token itself")


def run(options: argparse.Namespace) -> int:
    """Run one of the actions."""
    if options.what == "create" and options.users and options.scopes_bound:
        print(
            "infinite-memory tokens create: --user and --scope: a token is bound to users or to scopes; make two",
            file=sys.stderr,
        )
        return 2
    if options.what == "create" and options.metrics and (options.users or options.scopes_bound):
        print(
            "infinite-memory tokens create: --metrics: such a token is bound to no users or scopes; make two",
            file=sys.stderr,
        )
        return 2
    reply = _ask(options)
    if reply["status"] != "OK":
        print(f"infinite-memory: {reply['error']}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({name: value for name, value in reply.items() if name != "status"}, ensure_ascii=False))
    elif options.what == "create":
        print(reply["token"])
        print(f"{reply['token_id']}: {_about(reply)}. The token is not shown again.", file=sys.stderr)
    elif options.what == "rotate":
        print(reply["token"])
        print(f"{reply['token_id']}: replaced; the old token opens nothing any more.", file=sys.stderr)
    elif options.what == "revoke":
        print(f"{reply['token_id']}: revoked")
    else:
        for token in reply["tokens"]:
            print(f"{token['token_id']}  {token['created_at'][:10]}  {in_one_line(token['name'])}: {_about(token)}")
    return 0


def _ask(options: argparse.Namespace) -> Json:
    from infinite_memory.daemon.handshake import greet

    greeting = daemon_requests.build_greeting(options) | {
        "kind": "tokens",
        "what": options.what,
        "fields": _fields(options),
    }
    link, answer = greet(find_home(os.environ).path, greeting)
    daemon_requests.report_notes(answer)
    with link, link.makefile("rb") as stream:
        if line := stream.readline():
            reply: Json = json.loads(line)
            return reply
    raise DaemonError("the daemon stopped before it answered")


def _fields(options: argparse.Namespace) -> Json:
    if options.what == "create":
        return {
            "name": options.name,
            "users": options.users,
            "scopes": options.scopes_bound,
            "read_only": options.read_only,
            "metrics_only": options.metrics,
            "expires": options.expires,
        }
    return {"token_id": options.token_id} if options.what in ("revoke", "rotate") else {}


def _about(token: Json) -> str:
    bound = [f"user {name}" for name in token["users"]] + [f"scope {name}" for name in token["scopes"]]
    if token["missing_scopes"]:
        bound.append(f"{token['missing_scopes']} that are gone" if token["scopes"] else "scopes that are gone")
    if token["metrics_only"]:
        parts = ["the metrics alone"]
    else:
        parts = ["; ".join(bound) or "everything", *(["only reads"] if token["read_only"] else [])]
    if token["expires_at"]:
        parts.append(f"{'expired' if token.get('expired') else 'until'} {token['expires_at']}")
    return in_one_line(", ".join(parts))


COMMANDS = {"tokens": run}
