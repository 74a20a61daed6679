"""skbnp."""
