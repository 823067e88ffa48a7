"""Reports about log directories."""
