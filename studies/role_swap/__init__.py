"""Do a caller and a planner fail in each other's role?"""
