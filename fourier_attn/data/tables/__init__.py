"""A user's own files: tables, folders of images, their columns and classes."""
