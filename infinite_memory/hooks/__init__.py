"""Hooks of coding assistants: messages of a session are captured, and relevant memories are recalled, without a language model."""
