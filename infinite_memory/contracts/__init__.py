"""The contracts: each maps its own names and fields to engine calls, and answers back. One table a contract."""
