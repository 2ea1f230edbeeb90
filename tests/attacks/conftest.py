collect_ignore = ["corpus"]  # pytest takes files named test*.txt for doctests
