"""The nested CRP by sticks, for variational inference."""
