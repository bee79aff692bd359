"""Records -> pictures: one `draw(records) -> Figure` a picture, and the report page."""
