"""The contracts: each maps its own names and fields to engine calls, and the results to replies. One table a contract."""
