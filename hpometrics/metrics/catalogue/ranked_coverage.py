"""Coverage of ranked lists: how many items and users the lists reach, and how evenly."""
