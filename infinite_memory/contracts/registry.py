"""The contracts, by the name with which clients request them (``serve --contract NAME``): one line each.

The command line, the daemon, HTTP and the settings get their information about contracts here. Standard library only: `serve` imports
this, and the specs, but nothing else of a contract.
"""

from __future__ import annotations

import importlib

from infinite_memory.contracts.spec import ContractSpec, Option
from infinite_memory.errors import ConfigError

MODULES = (
    "infinite_memory.contracts.native.spec",
    "infinite_memory.contracts.memory_server.spec",
    "infinite_memory.contracts.palace.spec",
    "infinite_memory.contracts.laravel.spec",
    "infinite_memory.contracts.agentmem.spec",
)
"""The modules of the specs, each with a ``SPEC``; the first contract is the default."""

NATIVE = "native"
ROUTES = "routes"
"""What the Python SDK requests: the routes of the HTTP API, over the daemon's socket."""

_specs: dict[str, ContractSpec] = {}


def list_specs() -> list[ContractSpec]:
    """Return the spec of every contract, in the order of `MODULES`.

    Raises:
        ValueError: two of them have the same name, flag or settings section.
    """
    if not _specs:
        specs: list[ContractSpec] = [importlib.import_module(module).SPEC for module in MODULES]
        claimed: set[str] = set()
        for spec in specs:
            for claim in (spec.name, *(f"--{option.name}" for option in spec.options), f"[{spec.section}]"):
                if claim in claimed and claim != "[]":
                    raise ValueError(f"contract {spec.name}: {claim} is another contract's")
                claimed.add(claim)
        _specs.update((spec.name, spec) for spec in specs)
    return list(_specs.values())


def list_names() -> list[str]:
    """Return the names of all contracts."""
    return [spec.name for spec in list_specs()]


def list_options() -> list[tuple[ContractSpec, Option]]:
    """Return the ``serve`` flags of every contract."""
    return [(spec, option) for spec in list_specs() for option in spec.options]


def get_spec(name: str) -> ContractSpec:
    """Return the spec of a contract.

    Raises:
        ConfigError: there is no such contract.
    """
    names = list_names()
    if name not in names:
        raise ConfigError(f"--contract {name}: known are {', '.join(names)}")
    return _specs[name]
