"""Decoders of Transformers against re-implementations, right ones and ones with a planted mistake."""
