"""The vector index on a Milvus server, which several machines can share."""
