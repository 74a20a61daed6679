"""The nested HDP: documents mix over a whole tree of topics."""
