"""Reads custom datasets: tables, folders of images, tagged sentences and questions."""
