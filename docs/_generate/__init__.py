"""Generate `index.json`, the stub, the README's table and the generated pages of the docs."""
