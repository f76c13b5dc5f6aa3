"""The table of the palace contract, and what its rows share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infinite_memory.contracts.base import Table
from infinite_memory.contracts.fields import Fields
from infinite_memory.contracts.kinds import IntegerField, NameField, TextField
from infinite_memory.contracts.native.table import Session
from infinite_memory.engine import Engine


@dataclass(slots=True)
class Call:
    """One tool call on its way. ``data_dir`` is the folder that all palaces are kept in."""

    engine: Engine
    session: Session
    fields: Fields
    data_dir: Path

    @property
    def palace(self) -> str:
        """The palace that the call is about."""
        return self.fields.text("palace")


TABLE: Table[Call] = Table()

PALACE = NameField(name="palace", about="Palace ID (optional if server started with --palace)", required=True)


def query() -> TextField:
    """Text to look for."""
    return TextField(name="query", about="What to look for, by meaning", required=True, limit="query_chars")


def top_k() -> IntegerField:
    """How many drawers a search gives."""
    return IntegerField(
        name="top_k", about="Most drawers that answer the query", default=10, low=1, high=1000, limit="top_k"
    )
