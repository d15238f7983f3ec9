"""A detector trained, pruned and trained again on images that are drawn: what is left of its precision."""
