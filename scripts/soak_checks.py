"""The checks at the end of a soak: the books against the memory, against MongoDB itself, and against the files.

MongoDB is also read without our own code, and the text index with what is marked as deleted brought back to life: a memory that
asks itself whether it lost something could be wrong twice.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tantivy
from bson import ObjectId
from pymongo import MongoClient

from scripts.soak_users import Book, Shared, User, word_of
from tests.processes import Client, Installation

Json = dict[str, Any]
PAGE = 500
EVERY = 10  # one in so many is also asked for by its id, its words and its meaning, which takes a while
AT_ONCE = 20  # requests that are sent before the first reply is read
CLEAN_S = 60.0  # what was removed for good has left the files by then


def check(soak: Shared, users: list[User]) -> Json:
    """Hold the books against the memory, twice, with a new daemon in between; faults go to ``soak.wrong``. Gives figures."""
    installation, books = soak.installation, [user.book for user in users]
    removed = {memory_id for book in books for memory_id in book.removed}
    client = installation.serve()
    _check_removed_have_left(soak, client, removed)  # first: what comes below might chase them out
    total = check_books(soak, client, users)
    hidden = sum(len(book.hidden) for book in books)
    for book in books:
        bring_back_hidden(soak, client, book)
    check_mongodb(soak, users, _own_mongodb(installation))
    client.kill()
    if installation.command("daemon", "stop").returncode:
        soak.wrong.append("the daemon does not stop when all is calm")
    if left := installation.processes():
        soak.wrong.append(f"the daemon left processes behind: {left}")
    check_logs(soak, installation)
    _check_index_files(soak, {memory_id for book in books for memory_id in book.live})
    client = installation.serve()
    again = check_books(soak, client, users)
    if again != total + hidden:
        soak.wrong.append(f"{total} memories and {again} after a new start, with those brought back")
    client.kill()
    return {
        "acknowledged": sum(len(book.live) + len(book.removed) for book in books),
        "live": sum(len(book.live) for book in books) - hidden,
        "hidden": hidden,
        "removed": len(removed),
        "in_doubt": sum(len(book.doubtful) + len(book.unknown) for book in books),
        "total_memories": again,
    }


def ask(client: Client, action: str, **fields: Any) -> Json:
    """Ask when all is calm: an answer comes, if not at once."""
    for _ in range(30):
        reply = client.ask(action, **fields)
        if reply.get("error_code") != "CONNECTION_ERROR":
            return reply
        time.sleep(1)
    raise AssertionError(f"{action} is not answered when all is calm: {reply}")


def ask_all(client: Client, action: str, memory_ids: Iterable[str]) -> dict[str, Json]:
    """Ask the same of many memories, some at a time; gives the reply for each id."""
    replies: dict[str, Json] = {}
    remaining = iter(memory_ids)
    while batch := list(islice(remaining, AT_ONCE)):
        client.send(*({"action": action, "memory_id": memory_id} for memory_id in batch))
        replies |= {memory_id: client.reply() for memory_id in batch}
    for memory_id, reply in replies.items():
        if reply.get("error_code") == "CONNECTION_ERROR":
            replies[memory_id] = ask(client, action, memory_id=memory_id)
    return replies


def every_tenth(book: Book) -> list[str]:
    """Return the live memories that are asked for one by one."""
    return list(book.live)[::EVERY]


def check_books(
    soak: Shared, client: Client, users: list[User], choose: Callable[[Book], list[str]] = every_tenth
) -> int:
    """Hold the books against what a daemon answers: all by their tags, what *choose* returns by id, words and meaning."""
    for user in users:
        check_book(soak, client, user, choose(user.book))
    stats = ask(client, "get_memory_stats")["stats"]
    compared = ask(client, "optimize_memory", operations=["check_sidecar"])
    if compared["counts"]["check_sidecar"]:
        soak.wrong.append(f"the sidecar was not level with MongoDB: {compared}")
    end = time.monotonic() + CLEAN_S
    while (
        stats["sidecar"]["count"] != stats["total_memories"] or stats["pending_embeddings"]
    ) and time.monotonic() < end:
        time.sleep(1)
        stats = ask(client, "get_memory_stats")["stats"]
    if stats["sidecar"]["count"] != stats["total_memories"] or stats["pending_embeddings"]:
        soak.wrong.append(f"the sidecar and MongoDB do not agree: {stats}")
    total: int = stats["total_memories"]
    return total


def check_book(soak: Shared, client: Client, user: User, chosen: list[str]) -> None:
    book, wrong = user.book, soak.wrong
    tagged = list_tagged(client, user.tag)
    for memory_id, texts in book.live.items():
        if tagged.get(memory_id) not in texts:
            wrong.append(f"LOST by tag: {memory_id} {texts}: {tagged.get(memory_id)!r}")
    for memory_id, reply in ask_all(client, "get_memory", chosen).items():
        texts = book.live[memory_id]
        if reply["status"] != "OK" or reply["memory"]["text"] not in texts:
            wrong.append(f"LOST: {memory_id} {texts}: {reply}"[:500])
            continue
        word = word_of(reply["memory"]["text"])
        for mode in ("text", "semantic", "hybrid"):
            query = word if mode == "text" else reply["memory"]["text"]
            hits = ask(client, "retrieve_memory", query=query, mode=mode, scope=user.scope, top_k=5)
            if memory_id not in {one["memory_id"] for one in hits.get("results", ())}:
                wrong.append(f"LOST by {mode}: {memory_id} {query!r}: {str(hits)[:300]}")
    for memory_id, reply in ask_all(client, "get_memory", book.removed.keys() | book.hidden.keys()).items():
        if memory_id in tagged or reply["status"] == "OK":
            wrong.append(f"{memory_id} was deleted and is there")
    for memory_id, reply in ask_all(client, "restore_memory", book.removed).items():
        if reply["status"] == "OK":
            wrong.append(f"{memory_id} was removed for good and came back")
    known = book.live.keys() | book.doubtful.keys()
    for memory_id, text in tagged.items():
        if memory_id not in known and text not in book.unknown:
            wrong.append(f"{memory_id} is there and nobody stored it: {text!r}")
    if doubled := [text for text, times in Counter(tagged.values()).items() if times > 1]:
        wrong.append(f"stored twice: {doubled}")


def list_tagged(client: Client, tag: str) -> dict[str, str]:
    tagged: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = ask(client, "search_by_tag", tag=tag, limit=PAGE, cursor=cursor)
        tagged |= {one["memory_id"]: one["text"] for one in page["results"]}
        if (cursor := page["next_cursor"]) is None:
            if page["total"] != len(tagged):
                raise AssertionError(f"{tag}: {page['total']} memories are promised and {len(tagged)} listed")
            return tagged


def bring_back_hidden(soak: Shared, client: Client, book: Book) -> None:
    """What was softly forgotten is not lost: all of it comes back, with its words."""
    restored = ask_all(client, "restore_memory", book.hidden)
    for memory_id, found in ask_all(client, "get_memory", book.hidden).items():
        texts, reply = book.hidden[memory_id], restored[memory_id]
        if reply["status"] != "OK" or found["status"] != "OK" or found["memory"]["text"] not in texts:
            soak.wrong.append(f"LOST: {memory_id} {texts} was hidden and does not come back: {reply} {found}"[:500])
    book.live |= book.hidden
    book.hidden = {}


def _own_mongodb(installation: Installation) -> str:
    socket = installation.home / "mongodb" / "mongod.sock"
    return f"mongodb://{quote(str(socket), safe='')}/?directConnection=true"


def check_mongodb(soak: Shared, users: list[User], uri: str) -> None:
    """Read the documents with the driver alone."""
    with MongoClient[Json](uri) as mongo:
        database = mongo["infinite_memory"]
        there: dict[str, Json] = {}
        for name in database.list_collection_names(filter={"name": {"$regex": "^mem_[0-9a-f]{24}$"}}):
            for document in database[name].find({}):
                if str(document["_id"]) in there:
                    soak.wrong.append(f"{document['_id']} is in two scopes")
                there[str(document["_id"])] = document
        for user in users:
            for memory_id, texts in user.book.live.items():
                document = there.get(memory_id, {})
                if document.get("text") not in texts or document.get("deleted_at") is not None:
                    soak.wrong.append(f"LOST in MongoDB: {memory_id} {texts}: {document.get('text')!r}")
                elif not document.get("embedding"):
                    soak.wrong.append(f"{memory_id} has no vector")
            for memory_id in user.book.removed:
                if memory_id in there or database["revisions"].find_one({"memory_id": ObjectId(memory_id)}):
                    soak.wrong.append(f"{memory_id} was removed for good and is in MongoDB")


def _check_removed_have_left(soak: Shared, client: Client, removed: set[str]) -> None:
    """What was removed for good leaves vectors and words within a while, with nobody's further help."""
    ask(client, "list_memory_scopes")
    ask(client, "get_memory_stats")
    end = time.monotonic() + CLEAN_S
    while (left := _left_in_files(soak.installation, removed)) and time.monotonic() < end:
        time.sleep(2)
    if left:
        soak.wrong.append(f"removed for good, and still in the index files: {left}"[:500])


def _left_in_files(installation: Installation, removed: set[str]) -> list[str]:
    try:
        left = []
        for generation in (installation.home / "sidecars").glob("generation-*"):
            content = b"".join(one.read_bytes() for one in generation.iterdir())
            left += [f"{one} in {generation.name}" for one in removed if bytes.fromhex(one) in content]
        for generation in (installation.home / "sidecars" / "text").glob("text-*"):
            left += [f"{one} in {generation.name}" for one in ids_in(generation) & removed]
        return left
    except (OSError, ValueError) as exc:  # a new generation took its place at this moment
        return [f"not read: {exc}"]


def ids_in(generation: Path, *, marked_too: bool = True) -> set[str]:
    """List the memories whose words a text index's files hold, those marked as deleted too."""
    # tantivy watches an index that was just opened from a thread of its own, whose lock file may come while the copy goes.
    with tempfile.TemporaryDirectory(prefix="im-soak-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "text"
        shutil.copytree(generation, copy)
        meta = json.loads((copy / "meta.json").read_text("utf-8"))
        for segment in meta["segments"]:
            segment["deletes"] = None if marked_too else segment["deletes"]
        (copy / "meta.json").write_text(json.dumps(meta), "utf-8")
        searcher = tantivy.Index.open(str(copy)).searcher()
        hits = searcher.search(tantivy.Query.all_query(), limit=max(searcher.num_docs, 1)).hits
        places = [place for _, place in hits]
        heads = searcher.fast_field_values("id_head", places)
        tails = searcher.fast_field_values("id_tail", places)
        return {
            f"{int(head or 0) & (1 << 64) - 1:016x}{int(tail or 0):08x}"
            for head, tail in zip(heads, tails, strict=True)
        }


def _check_index_files(soak: Shared, live: set[str]) -> None:
    """What an orderly end left: every live memory has its words in the one text index, and its vector in the one generation."""
    sidecars = soak.installation.home / "sidecars"
    texts, generations = list((sidecars / "text").glob("text-*")), list(sidecars.glob("generation-*"))
    if len(texts) != 1 or len(generations) != 1:
        soak.wrong.append(f"not one index each: {texts} {generations}")
        return
    if missing := live - ids_in(texts[0], marked_too=False):
        soak.wrong.append(f"LOST in the text index: {len(missing)} memories, {sorted(missing)[:5]}")
    content = b"".join(one.read_bytes() for one in generations[0].iterdir())
    if missing := {one for one in live if bytes.fromhex(one) not in content}:
        soak.wrong.append(f"LOST in the vectors' files: {len(missing)} memories, {sorted(missing)[:5]}")


def check_logs(soak: Shared, installation: Installation) -> None:
    """No log line holds the text of a memory."""
    for file in (installation.home / "logs").iterdir():
        content = file.read_bytes()
        if re.search(rb"zq\d+x\d+", content):
            soak.wrong.append(f"{file.name} holds the words of memories")
