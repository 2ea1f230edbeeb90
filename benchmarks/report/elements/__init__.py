"""What the panels are made of: blocks of a page, and charts."""
