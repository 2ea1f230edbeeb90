collect_ignore = ["corpus"]
