"""Elements of panels: blocks of a page, and charts."""
