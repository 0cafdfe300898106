"""Pending jobs of a scheduler: read, estimated from the published State, and changed where a site asks for it."""
