"""An agent on LangGraph that takes notes: "note: ..." is remembered for good, anything else is answered from the notes.

    python examples/langgraph_notes.py "note: the demo is on Tuesday" "when is the demo?"

No language model takes part, so that it runs as it is; put yours into `answer`, with the notes in its prompt. Needs
`pip install langgraph "infinite-memory[langgraph]>=0.2"`. The notes are in your memory: every assistant finds them in the scope LangGraph.
"""

import sys
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

from infinite_memory.adapters.langgraph import InfiniteMemoryStore

NOTES = ("notes", "me")
SURE = 0.25  # of 1; what has nothing to do with the question is mostly below 0.15


class State(TypedDict):
    said: str
    answer: str


def choose(state: State) -> str:
    return "note" if state["said"].lower().startswith("note:") else "answer"


def note(state: State, *, store: BaseStore) -> dict[str, str]:
    text = state["said"].partition(":")[2].strip()
    store.put(NOTES, text.lower(), {"text": text})
    return {"answer": f"noted: {text}"}


def answer(state: State, *, store: BaseStore) -> dict[str, str]:
    hits = store.search(NOTES, query=state["said"], limit=1)
    sure = [hit.value["text"] for hit in hits if hit.score >= SURE]
    return {"answer": sure[0] if sure else "I have no note about that."}


def build():
    graph = StateGraph(State)
    graph.add_node("note", note)
    graph.add_node("answer", answer)
    graph.add_conditional_edges(START, choose, ["note", "answer"])
    graph.add_edge("note", END)
    graph.add_edge("answer", END)
    return graph.compile(store=InfiniteMemoryStore())


if __name__ == "__main__":
    agent = build()
    for said in sys.argv[1:]:
        print(agent.invoke({"said": said})["answer"])
