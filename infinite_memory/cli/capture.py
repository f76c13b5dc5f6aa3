"""`infinite-memory capture`: pause, resume or turn off capture and recall by hooks, and show their state.

It only uses files, so it takes effect at once and needs no daemon.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from infinite_memory.hooks.control import OFF, ON, PAUSED, read_control, set_state
from infinite_memory.hooks.files import CLIENTS, events_set_aside, hooks_folder, last_events, waiting
from infinite_memory.hooks.run import main as run_hook
from infinite_memory.paths import HOME_VARIABLE, check_home, find_home, unusable

_STATES = {"pause": PAUSED, "resume": ON, "off": OFF}
_SAYS = {
    ON: "hooks store what is said and recall what is known",
    PAUSED: "paused: hooks store nothing of what is said now; what is known is still recalled",
    OFF: "off: hooks neither store nor recall",
}
_TOOLS = "what an assistant stores by its tools (store_memory) is stored as ever; your client turns those off"
DAY_S = 86_400.0
MAX_SHOWN = 5  # file names


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `infinite-memory`."""
    capturing = commands.add_parser("capture", help="pause, resume or turn off what hooks store and recall")
    capturing.add_argument("what", choices=("pause", "resume", "status", "off"), metavar="pause|resume|status|off")
    capturing.add_argument("--json", action="store_true")
    capturing.add_argument(
        "--home", metavar="FOLDER", help=f"the home of the memory; default: {HOME_VARIABLE}, or the user's"
    )
    hook = commands.add_parser(
        "hook", help="what an assistant's hook runs: its event on standard input, no failure ever"
    )
    hook.add_argument(
        "event",
        metavar="EVENT",
        help="SessionStart, UserPromptSubmit, Stop, SubagentStop, PreCompact or SessionEnd; of others, what the client calls it",
    )
    hook.add_argument("--home", metavar="FOLDER", help="the home of the memory, behind the event")
    hook.add_argument("--client", choices=CLIENTS, help="the assistant whose hook it is; default: claude-code")


def run(options: argparse.Namespace) -> int:
    """Change the state, if requested, and show it."""
    home = find_home(os.environ | ({HOME_VARIABLE: options.home} if options.home else {})).path
    try:
        check_home(home)
    except OSError as exc:
        print(f"infinite-memory capture: {unusable(home, exc)}", file=sys.stderr)
        return 1
    control = read_control(home) if options.what == "status" else set_state(home, _STATES[options.what])
    if options.json:
        status = {"state": control.state, "waiting": len(waiting(home)), "events": last_events(home)}
        print(json.dumps(status))
        return 0
    print(_SAYS.get(control.state, control.state))
    if control.state != ON:
        print(_TOOLS)
    if options.what == "status":
        print(f"events that wait for the daemon: {len(waiting(home))}")
        for line in describe_events(home):
            print(line)
    return 0


def describe_events(home: Path) -> list[str]:
    """Yield a line for the last event of each kind and client."""
    return [describe_event(event) for event in last_events(home)]


def malformed_files(home: Path) -> str | None:
    """Return a line about damaged hook files; None if there are none. Everything else works without them."""
    from infinite_memory.hooks.sessions import Sessions

    names = [*Sessions(home).malformed(), *(f"spool/{name}" for name in events_set_aside(home))]
    listed = ", ".join(names[:MAX_SHOWN]) + (f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else "")
    return f"files of {hooks_folder(home)} that cannot be understood are passed over: {listed}" if names else None


def describe_event(event: dict[str, Any]) -> str:
    """Return a line about the last event: when it arrived, and its failure."""
    text = f"{event.get('client')} {event.get('event')}: last {_ago(event['at'])}"
    if failure := event.get("failure"):
        return f"{text}, failed: {failure} (since {_ago(event['failing_since'])})"
    last = event.get("last_failure")
    return text if not isinstance(last, dict) else f"{text}, last failure {_ago(last['at'])}: {last['failure']}"


def _ago(instant: Any) -> str:
    if not isinstance(instant, float):
        return "at an unknown time"
    seconds = max(0.0, time.time() - instant)
    for unit_s, unit in ((DAY_S, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit_s:
            return f"{seconds // unit_s:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def hook(options: argparse.Namespace) -> int:
    """Handle an event. Hook processes bypass this parser (`infinite_memory.__main__`); it serves help and callers of `main`."""
    named = [f"--{name}={value}" for name in ("home", "client") if (value := getattr(options, name)) is not None]
    return run_hook([options.event, *named])


COMMANDS = {"capture": run, "hook": hook}
