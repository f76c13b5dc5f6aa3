"""The use cases of the memory. Independent of JSON, sockets, MongoDB and FAISS; dependencies are injected."""
