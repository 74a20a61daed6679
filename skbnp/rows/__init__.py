"""Documents as learning reads them: blocks of counts, or token by token."""
