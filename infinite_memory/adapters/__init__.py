"""This memory behind the interfaces of other libraries, over the SDK. Each module needs its extra: ``infinite-memory[langgraph]``, say."""
