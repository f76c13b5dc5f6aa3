"""Optional language models: one interface, several implementations, and no model is a valid configuration.

Nothing in InfiniteMemory requires a model. With one, facts are extracted from stored memories, contradictions resolved and chats
answered; without one, the contract says so (``"generated": false``) and answers from the memories themselves.
"""
