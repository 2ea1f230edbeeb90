"""Views: a team environment as a Gymnasium environment of one agent, and a foreign one as a team of one."""
