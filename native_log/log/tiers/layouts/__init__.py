"""How plugins for remote storage name their objects. The modules are pure: they open nothing."""
