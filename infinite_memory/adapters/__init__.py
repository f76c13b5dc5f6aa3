"""Adapters to other libraries, built on the SDK. Each module needs its extra, such as ``infinite-memory[langgraph]``."""
