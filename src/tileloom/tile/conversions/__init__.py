"""Changes of layout: where they can go, and what they cost."""
