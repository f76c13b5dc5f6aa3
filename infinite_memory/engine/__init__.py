"""What the product does. Knows no JSON, socket, MongoDB or FAISS; what it needs is handed in."""
