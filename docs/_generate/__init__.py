"""Generate `index.json`, the stub and the generated pages of the docs."""
