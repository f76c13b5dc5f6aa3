"""The palace contract: palaces (scopes), rooms, drawers (memories), and a temporal knowledge graph (facts)."""
