"""Mutual proof of a shared secret without revealing it: HMACs of fresh nonces. Standard library only.

A proof includes its purpose, so that one side's answer is not valid as the other's, and the address at which it is given, so that it
cannot be relayed from another port.
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
    """Return a new random nonce."""
    return os.urandom(NONCE_BYTES).hex()


def is_nonce(value: object) -> bool:
    """True if *value* has the form of a nonce."""
    return isinstance(value, str) and _NONCE.fullmatch(value) is not None


def sign(secret: str, purpose: str, address: str, *nonces: str) -> str:
    """Return a proof of knowing *secret*."""
    message = "\n".join(("infinite-memory", purpose, address, *nonces))
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()


def is_signed(proof: object, secret: str, purpose: str, address: str, *nonces: str) -> bool:
    """True if *proof* is what `sign` returns for the other arguments; compares in constant time."""
    expected = sign(secret, purpose, address, *nonces)
    return isinstance(proof, str) and hmac.compare_digest(proof.encode(), expected.encode())


def format_address(host: str, port: int) -> str:
    """Return an address in the form that both sides sign."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def derive_key(token: str) -> str:
    """Return the key for proofs about a bearer token: its SHA-256, which is all that the daemon's database stores of most tokens."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_same(value: bytes, secret: str) -> bool:
    """True if *value* equals *secret*; compares in constant time."""
    return hmac.compare_digest(value, secret.encode())
