"""The doors: where programs come in."""
