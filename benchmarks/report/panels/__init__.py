"""The panels of the page: each turns experiments into markup, or into nothing."""
