"""Modules that come with Chainer, and are never looked for beside a model's file."""

OWN_MODULES = ("chainer", "chainerx", "chainermn")
"""Packages of Chainer's distribution, which the stand-in takes the place of."""
