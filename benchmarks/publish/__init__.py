"""Folders for hubs: trained teams and data sets with cards, and entries of environments; docs/publish.md."""
