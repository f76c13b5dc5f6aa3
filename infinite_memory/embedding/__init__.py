"""Text embedding: the interface (`base`), the models that implement it, and the set-up of models."""
