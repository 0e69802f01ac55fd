"""Ray's own modules that tests import from. Those without a file here import, too; using what they have raises."""

from weir.compat.outside import library

__getattr__, __dir__ = library(__name__)
