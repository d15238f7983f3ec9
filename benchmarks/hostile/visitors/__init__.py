"""The workbench under attack while honest visitors work; see ``__main__``."""
