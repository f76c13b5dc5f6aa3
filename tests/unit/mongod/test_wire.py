"""The few bytes of MongoDB's protocol that are written by hand, against PyMongo's own BSON."""

from __future__ import annotations

import bson

from infinite_memory.mongod.wire import Reply, encode


def test_documents_are_written_as_the_driver_writes_them() -> None:
    document = {"replSetInitiate": {"_id": "é", "members": [{"_id": 0, "host": "./a.sock"}]}, "flag": True, "$db": "x"}
    assert encode(document) == bson.encode(document)  # type: ignore[arg-type]


def test_fields_of_a_reply_are_found() -> None:
    reply = Reply(bson.encode({"a": True, "b": False, "errmsg": "närrisch", "ok": 1.0}))
    assert reply.is_true("a")
    assert not reply.is_true("b")
    assert not reply.is_true("c")
    assert reply.text("errmsg") == "närrisch"
    assert reply.text("codeName") == ""
