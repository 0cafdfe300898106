"""What the page of a site shows, from the versions on disk."""
