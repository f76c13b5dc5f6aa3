"""The static texts of the Laravel contract: three documents for agents, and three prompts. The contract's rules in our words."""

from __future__ import annotations

from infinite_memory.contracts.fields import Json

OVERVIEW = """\
# The Memory MCP Server

It keeps structured memories for an application: facts, preferences, rules, decisions. A memory is one concept, written so that it is
understood on its own.

Each memory has
- a scope: `system` (true for everybody), `organization` (a team's), `repository` (one code base's) or `user` (one person's own);
- a type: what kind of knowledge it is;
- a status: `draft` at first, then `verified` or `active`; `locked` keeps its content from changing; `deprecated` hides it from
  searches that do not ask for it;
- an importance from 1 to 10, a title, and a few keys of metadata.

A change of content keeps what was said before: read `memory://{id}/history`. Deleting is soft, and memory-restore undoes it.

`memory://index` lists the 50 newest memories without their content, to see what there is. `memory://{id}` is one memory, whole, with
its links.
"""

TOOLS_GUIDE = """\
# The tools

| tool | when |
| --- | --- |
| memory-search | first, always: by keywords and filters; gives every match, whole |
| memory-vector-search | when keywords fail and the meaning is known |
| memory-write | for a new concept; with an `id` it updates, or makes that very memory |
| memory-batch-write (memory-bulk-write) | for several new concepts at once, all or none |
| memory-update | to refine or correct what is known; only the given fields change |
| memory-delete | for what is wrong or obsolete; soft |
| memory-restore | to undo a deletion |
| memory-link | for a connection that is really there; linking twice is linking once |

Searching: results come by relevance, then importance, then the newest first. `filters.repository` shows the repository together with
what it belongs to: its organization and the system. `filters.status: "deprecated"` shows what is out of date.

Failures are JSON-RPC errors: -32602 names every wrong field and what it takes, -32004 (404) says that an id is unknown.
"""

MEMORY_RULES = """\
# Rules for memories

1. One concept for each memory. Two facts are two memories.
2. Search before writing. If it is known, update it.
3. No chat logs, no debugging output, nothing that is stale tomorrow.
4. The scope is as narrow as the truth of it: a person's taste is `user`, a team's rule `organization`.
5. The title is one short sentence of at most 12 words, without much punctuation.
6. Metadata has at most five keys, flat, with short values.
7. Importance 8 to 10 is for what must not be missed.
"""

DOCUMENTS: dict[str, tuple[str, str, str]] = {
    "docs://mcp-overview": ("mcp-overview", "What this server keeps, and how", OVERVIEW),
    "docs://tools-guide": ("tools-guide", "Which tool is for what", TOOLS_GUIDE),
    "docs://memory-rules": ("memory-rules", "How a memory is to be written", MEMORY_RULES),
}
"""Name, description and text of each document, by URI."""

AGENT_CORE = """\
You work with the Memory MCP Server. These rules bind you:

1. One concept, one memory
   - Keep every memory to a single concept, and never fold unrelated facts into one.
   - Conversations and chat logs are not memories; neither is debugging data that is worthless tomorrow.

2. Look before you write
   - Before you store anything, find out with `memory-search` what is known already.
   - A second copy of a fact damages what everybody knows.

3. Know what there is to read
   - Read `docs://mcp-overview` and `docs://tools-guide` if you have not yet.
   - Read `docs://memory-rules` before you create content.
   - `memory://index` tells you which memories exist. It is no source of knowledge.

4. Put it where it belongs
   - `system`: what is true for everybody.
   - `organization`: what a team knows.
   - `repository`: what belongs to one code base.
   - `user`: what one person prefers.

Breaking these rules fills the memory with noise and makes it worse for all who use it.
"""

INDEX_POLICY = """\
The memory index is for discovery. It mirrors no content.

1. What it holds
   - Never the full content of a memory.
   - Only id, title, scope, type, importance, status and tags: every entry is light.

2. Titles
   - One short sentence, 12 words at most.
   - No explanations, and little punctuation.

3. Metadata
   - Five keys for an entry at most, flat: a key and a value.
   - No objects inside, no long text.

4. How to use it
   - To learn WHICH knowledge exists, not HOW things work.
   - When you need to reason about something, get its `current_content` with `memory-search`.

5. How it is made
   - When you write a memory, see that its title and metadata fit these limits.
   - The server leaves `current_content` out by itself.
"""

TOOL_USAGE = """\
How to use the tools

1. memory-write
   - For a fact or rule that is entirely new.
   - Not to change a memory that exists, and not for chat logs.
   - Read `docs://memory-rules` first.

2. memory-update
   - To refine what is known, or to correct it.
   - Not when you do not know the id.
   - The memory must stay about one concept.

3. memory-search
   - To answer a question, or to see whether something is known already.
   - Not to browse without aim; `memory://index` is for that.
   - Use specific keywords, so that little noise comes back.

4. memory-delete
   - For what is plainly wrong or wholly obsolete.
   - Careful: it takes the memory away.

5. memory-batch-write
   - To bring in several separate facts of one session.
   - Every entry must pass the rule of one concept by itself.

6. memory-link
   - Where there is an explicit logical connection, such as a dependency.

7. memory-vector-search
   - Where exact keywords fail, or something similar in concept is wanted.
"""

PROMPTS: dict[str, tuple[str, str]] = {
    "memory-agent-core": ("How an agent must behave towards the memory", AGENT_CORE),
    "memory-index-policy": ("What the index is, and what may stand in it", INDEX_POLICY),
    "tool-usage-guidelines": ("When to use which tool, and when not to", TOOL_USAGE),
}
"""Description and text of each prompt, by name."""


def list_prompts() -> list[Json]:
    """Return the description of every prompt; none takes an argument."""
    return [{"name": name, "description": about, "arguments": []} for name, (about, _) in PROMPTS.items()]


def document_resources() -> list[Json]:
    """Return the description of every document."""
    return [
        {"uri": uri, "name": name, "description": about, "mimeType": "text/markdown"}
        for uri, (name, about, _) in DOCUMENTS.items()
    ]
