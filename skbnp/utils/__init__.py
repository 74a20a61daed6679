"""Small helpers without mathematics: input checks, random streams."""
