"""Publishes complete versions of the tables under one manifest, which is replaced in one step."""

from pipeline.publish.manifest import Manifest, load_manifest
from pipeline.publish.versions import Retention, publish, read_version

__all__ = ["Manifest", "Retention", "load_manifest", "publish", "read_version"]
