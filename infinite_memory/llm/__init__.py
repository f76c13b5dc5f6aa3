"""Where a language model may be asked: one interface, several implementations, and none at all is a proper answer.

Nothing in InfiniteMemory needs a model. With one, facts are drawn from what is stored, contradictions are settled and chats are
answered; without one the contract says so (``"generated": false``) and answers from the memories themselves.
"""
