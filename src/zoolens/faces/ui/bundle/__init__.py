"""Bundles: a static copy of the explorer with chosen runs, studies, traces and audits, to be passed on as a folder."""
