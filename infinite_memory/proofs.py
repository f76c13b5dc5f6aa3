"""How two sides that share a secret prove it to each other without showing it: HMACs of fresh nonces. Standard library only.

A proof names its purpose, so that one side's answer is never the other's, and the address at which it is given, so that nobody who sits
between the two can pass it on from another port.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re

NONCE_BYTES = 32
_NONCE = re.compile(r"[0-9a-fA-F]{64}")

BY_DAEMON, BY_CLIENT, BY_HTTP = "daemon", "client", "http"
"""The purposes."""


def make_nonce() -> str:
    """Return a nonce that was never used before."""
    return os.urandom(NONCE_BYTES).hex()


def is_nonce(value: object) -> bool:
    """True if *value* has the form of a nonce."""
    return isinstance(value, str) and _NONCE.fullmatch(value) is not None


def sign(secret: str, purpose: str, address: str, *nonces: str) -> str:
    """Return the proof that whoever gives it knows *secret*."""
    said = "\n".join(("infinite-memory", purpose, address, *nonces))
    return hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()


def is_signed(proof: object, secret: str, purpose: str, address: str, *nonces: str) -> bool:
    """True if *proof* is what `sign` returns for the rest."""
    expected = sign(secret, purpose, address, *nonces)
    return isinstance(proof, str) and hmac.compare_digest(proof.encode(), expected.encode())


def format_address(host: str, port: int) -> str:
    """Return how both sides write an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def derive_key(token: str) -> str:
    """Return what proofs about a bearer token are made with: its SHA-256, which is all that the daemon's database has of most tokens."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_same(value: bytes, secret: str) -> bool:
    """True if *value* is *secret*; takes the same time whatever it is."""
    return hmac.compare_digest(value, secret.encode())
