"""Texts to vectors: the interface (`base`), the models that fill it, and what set-up needs to make a model ready."""
