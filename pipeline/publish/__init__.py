"""Versioned tables a reader can trust: whole versions, one manifest, replaced in one step."""

from pipeline.publish.manifest import Manifest, RunFacts, load_manifest
from pipeline.publish.versions import publish

__all__ = ["Manifest", "RunFacts", "load_manifest", "publish"]
