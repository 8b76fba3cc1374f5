"""Files that `hpometrics init` copies; nothing imports them."""
