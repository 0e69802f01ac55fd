"""Ray's own modules that tests import from."""
