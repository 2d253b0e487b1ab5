"""Manifests of other systems, read as drafts of ours: one file a format. Nothing of them is executed or fetched."""
