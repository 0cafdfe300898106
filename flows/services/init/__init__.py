"""A first config: looks at the machine, and writes the config and units of systemd for it."""
